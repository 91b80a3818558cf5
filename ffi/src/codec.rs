//! The codec of arguments, results and event arguments, for clients and servers.

use witrpc_core::codec::Codec;

use crate::client_options::{self, witrpc_client_options};
use crate::guard::Failure;
use crate::server_options::{self, witrpc_server_options};
use crate::status::witrpc_status;

/// How arguments, results and event arguments travel. Numbers never change.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum witrpc_codec {
    /// System.Text.Json. The default, here and in WitRPC. Needs no contract.
    WITRPC_CODEC_JSON = 0,
    /// MemoryPack (WithMemoryPack).
    WITRPC_CODEC_MEMORYPACK = 1,
    /// MessagePack, LZ4-compressed where WitRPC does that (WithMessagePack).
    WITRPC_CODEC_MESSAGEPACK = 2,
    /// protobuf-net (WithProtoBuf).
    WITRPC_CODEC_PROTOBUF = 3,
    /// Google.Protobuf: messages of types that the contract does not declare pass as their bytes, in
    /// base64; all else is JSON.
    WITRPC_CODEC_GOOGLE_PROTOBUF = 4,
}

fn codec_of(codec: i32) -> Result<Codec, Failure> {
    Ok(match codec {
        0 => Codec::Json,
        1 => Codec::MemoryPack,
        2 => Codec::MessagePack,
        3 => Codec::Protobuf,
        4 => Codec::GoogleProtobuf,
        _ => return Err(witrpc_status::WITRPC_INVALID_ARGUMENT.into()),
    })
}

/// How arguments and results are encoded (witrpc_codec). The server must be set alike: it is not
/// negotiated. Default WITRPC_CODEC_JSON.
///
/// Values are JSON text all the same. The other codecs encode by type: what the built-in types of a
/// method's line do not say, the members of classes and enums, comes from the contract that the
/// service was made with (witrpc_client_service_of). Without it such a call fails with
/// WITRPC_INVALID_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_client_options_codec(
    options: *mut witrpc_client_options,
    codec: i32,
) -> i32 {
    client_options::change(options, |o| {
        o.codec = codec_of(codec)?;
        Ok(())
    })
}

/// How arguments and results are encoded (witrpc_codec). Clients must be set alike: it is not
/// negotiated. Default WITRPC_CODEC_JSON.
///
/// Handlers get and give JSON text all the same. The other codecs need the contract with its types
/// (witrpc_implementation_of) for methods that use more than built-in types.
#[unsafe(no_mangle)]
pub extern "C" fn witrpc_server_options_codec(
    options: *mut witrpc_server_options,
    codec: i32,
) -> i32 {
    server_options::change(options, |o| {
        o.codec = codec_of(codec)?;
        Ok(())
    })
}
