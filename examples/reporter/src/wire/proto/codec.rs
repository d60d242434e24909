//! gRPC codec: prost messages in tonic's buffers.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Writes `E` and reads `D`.
#[derive(Debug)]
pub struct ProstCodec<E, D>(PhantomData<(E, D)>);

impl<E, D> Default for ProstCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: Message + 'static, D: Message + Default + 'static> Codec for ProstCodec<E, D> {
    type Encode = E;
    type Decode = D;
    type Encoder = Writes<E>;
    type Decoder = Reads<D>;

    fn encoder(&mut self) -> Writes<E> {
        Writes(PhantomData)
    }

    fn decoder(&mut self) -> Reads<D> {
        Reads(PhantomData)
    }
}

/// The writing half.
#[derive(Debug)]
pub struct Writes<E>(PhantomData<E>);

impl<E: Message> Encoder for Writes<E> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, message: E, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(to).map_err(|error| Status::internal(error.to_string()))
    }
}

/// The reading half.
#[derive(Debug)]
pub struct Reads<D>(PhantomData<D>);

impl<D: Message + Default> Decoder for Reads<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        D::decode(from).map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

/// Bytes of a message, either way: the largest there is has fewer.
pub const MAX_BYTES: usize = 1 << 20;
/// The one method of the one service.
pub const METHOD: &str = "/pointsman.v1.Events/Report";
