//! A dispatch in a scripted world: whatever pods, clients and clocks do, what must always hold holds (`world::rules`).

mod answers;
mod apis;
mod bad_days;
mod bounds;
mod handoffs;
mod interleavings;
mod legs;
mod local;
mod merged;
mod odds;
mod policies;
mod probing;
mod random;
mod roles;
mod world;
