//! Shared by the example programs: command-line helpers, progress bars, Unix signals, a toy tokenizer, bearer tokens, closing of ZeroMQ sockets.

#![forbid(unsafe_code)]

pub mod bearer_token;
pub mod cli;
pub mod progress;
pub mod signals;
pub mod words;
pub mod zmq_close;
