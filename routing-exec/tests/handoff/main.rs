//! Handoffs from one pod to another: what each dialect sends and hears.

mod cases;
mod common;
mod dialects;
mod pair;
mod properties;
