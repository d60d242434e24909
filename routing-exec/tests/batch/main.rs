//! A batch over pods that act by virtual time.

mod admit;
#[path = "../executor_world/mod.rs"]
mod executor_world;
mod living;
mod moving;
mod pods;
mod resume;
mod sizes;
mod world;
