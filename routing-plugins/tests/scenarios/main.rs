//! What each ready profile is for, shown on a small simulated fleet; in code and as a document.

mod documents;
mod parameters;
mod prefill_decode;
mod shared_values;
mod single;
mod world;
