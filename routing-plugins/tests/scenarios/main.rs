//! What each ready profile is for, shown on a small simulated fleet; in code and as a document.

mod documents;
mod prefill_decode;
mod single;
mod world;
