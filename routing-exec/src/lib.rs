//! How is a plan carried out?
//!
//! This is the execution layer of Pointsman. It will take a plan from `routing-core` and dispatch
//! it: to a single pod, to a prefill pod and then a decode pod, or as an offline batch over a whole
//! queue. It opens no sockets. The host binds its own client and its own timers through traits.
//!
//! **The crate has no API yet.** What follows is the contract it will be built to; nothing here can
//! be called today.
//!
//! # How it will work
//!
//! A run is a state machine over a plan. It says what to do next (send this request to that pod,
//! cancel that attempt, forward these bytes, finish with this error) and is told what happened. A
//! host without futures can drive it by hand; a thin async driver will do so for the others. Of the
//! other layers, this crate will know only `routing-core`.
//!
//! # Promises to come
//!
//! - No runtime of its own: no async runtime and no HTTP client in the default dependency tree.
//! - When one leg of a request fails, the other leg is cancelled at once.
//! - A pod's circuit breaker is charged at most once per request.
//! - A stream that is cut after its first byte ends in a typed error. It is never silently truncated
//!   and never replayed.
//! - Retries stay within the budget and the deadline that the plan states.

#![forbid(unsafe_code)]
