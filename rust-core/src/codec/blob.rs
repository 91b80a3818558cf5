//! The parameter codecs by name, and the rules that hold for all of them: a null is an empty blob.

use std::fmt;
use std::str::FromStr;

use super::error::{CodecError, Result};
use super::json::{self, Dialect, Reader};
use super::memorypack;
use super::messagepack;
use super::protobuf;
use super::schema::{a, mismatch};
use super::value::Value;
use crate::contract::{Type, Types};

/// How arguments, results and event arguments are encoded. Both ends must be configured alike: the
/// wire does not say which one is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Codec {
    /// `System.Text.Json`, the default of WitRPC.
    #[default]
    Json,
    /// MemoryPack, with the layouts that the contract gives.
    MemoryPack,
    /// MessagePack, with the layouts that the contract gives.
    MessagePack,
    /// protobuf-net, with the field numbers that the contract gives.
    Protobuf,
    /// Google.Protobuf: the bytes of generated messages, which pass as they are for types that the
    /// contract does not declare; everything else is JSON.
    GoogleProtobuf,
}

impl Codec {
    /// The name in options: `json`, `memorypack`, `messagepack`, `protobuf`, `google-protobuf`.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Json => "json",
            Codec::MemoryPack => "memorypack",
            Codec::MessagePack => "messagepack",
            Codec::Protobuf => "protobuf",
            Codec::GoogleProtobuf => "google-protobuf",
        }
    }

    /// Appends the blob of a value to `out`; nothing for null. On error `out` is as it was.
    ///
    /// `types` are the declarations of the contract that `ty` is of.
    ///
    /// # Errors
    /// When the value does not fit the type, or the codec has no form for it.
    pub fn encode(self, out: &mut Vec<u8>, value: &Value, ty: &Type, types: &Types) -> Result<()> {
        let ty = ty.without_ref();
        if value.is_null() {
            return if may_be_null(ty) {
                Ok(())
            } else {
                Err(mismatch("null", &ty.to_string()))
            };
        }
        let start = out.len();
        let written = match (self, value) {
            (Codec::GoogleProtobuf, Value::Bytes(bytes)) if is_message(ty) => {
                out.extend_from_slice(bytes);
                Ok(())
            }
            (Codec::MemoryPack, _) => memorypack::encode(out, value, ty, types),
            (Codec::MessagePack, _) => messagepack::encode(out, value, ty, types),
            (Codec::Protobuf, _) => protobuf::encode(out, value, ty, types),
            (Codec::Json | Codec::GoogleProtobuf, _) => {
                json::write(out, value, ty, types, Dialect::Wire, 0)
            }
        };
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// The value of a blob. An empty blob is null.
    ///
    /// # Errors
    /// When the blob is not a value of the type, also where .NET would take it for null or zero.
    pub fn decode(self, blob: &[u8], ty: &Type, types: &Types) -> Result<Value> {
        let ty = ty.without_ref();
        if *ty == Type::Void {
            return Ok(Value::Null);
        }
        if blob.is_empty() && !self.has_empty_values(ty, types) {
            return decode_empty(ty);
        }
        match self {
            Codec::MemoryPack => memorypack::decode(blob, ty, types),
            Codec::MessagePack => messagepack::decode(blob, ty, types),
            Codec::Protobuf => protobuf::decode(blob, ty, types),
            Codec::GoogleProtobuf if is_message(ty) => Ok(Value::Bytes(blob.to_vec())),
            Codec::Json | Codec::GoogleProtobuf => {
                let mut reader = Reader::from_bytes(blob)?;
                let value = json::read(&mut reader, ty, types, Dialect::Wire)?;
                reader.end()?;
                Ok(value)
            }
        }
    }

    /// Whether an empty blob is a value of a type that has no null.
    fn has_empty_values(self, ty: &Type, types: &Types) -> bool {
        self == Codec::Protobuf && !may_be_null(ty) && protobuf::may_be_empty(ty, types)
    }

    /// Whether a null of this type travels as no data.
    pub(super) fn accepts_null(self, ty: &Type) -> bool {
        may_be_null(ty.without_ref())
    }
}

fn decode_empty(ty: &Type) -> Result<Value> {
    if may_be_null(ty) {
        return Ok(Value::Null);
    }
    Err(CodecError::new(format!(
        "nothing where {} is expected: the sender had no form for its value, or gave none",
        a(ty)
    )))
}

/// Whether null is a value of the type.
fn may_be_null(ty: &Type) -> bool {
    matches!(ty, Type::Nullable(_)) || ty.is_value_type() != Some(true)
}

/// Whether the type is taken for a generated message, of which Google.Protobuf has the bytes: one
/// that the contract does not declare.
fn is_message(ty: &Type) -> bool {
    matches!(ty, Type::Named(_) | Type::Unresolved(_))
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = CodecError;

    fn from_str(name: &str) -> Result<Codec> {
        const ALL: [Codec; 5] = [
            Codec::Json,
            Codec::MemoryPack,
            Codec::MessagePack,
            Codec::Protobuf,
            Codec::GoogleProtobuf,
        ];
        ALL.into_iter()
            .find(|codec| codec.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let names: Vec<&str> = ALL.into_iter().map(Codec::name).collect();
                CodecError::new(format!(
                    "{name:?} is no codec: write one of {}",
                    names.join(", ")
                ))
            })
    }
}
