//! What several of the example programs need: a toy tokenizer, Unix signals, closing of ZeroMQ sockets, progress bars.

#![forbid(unsafe_code)]

pub mod progress;
pub mod signals;
pub mod words;
pub mod zmq_close;
