//! The writing side of a request: borrowed parts, and arguments that were encoded once for all
//! attempts.

use bytes::{Bytes, BytesMut};
use uuid::Uuid;

use super::memorypack::{Write, string_size};
use super::request::ParameterType;
use super::tolerant::{write_extension, write_header};

/// The encoded arguments of a call, in one buffer that all of its attempts share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments(Bytes);

impl Arguments {
    /// No arguments.
    pub const NONE: Self = Self(Bytes::from_static(&[0; 4]));

    /// Already encoded blobs, one an argument. An empty blob is null.
    pub fn from_blobs<B: AsRef<[u8]>>(blobs: &[B]) -> Self {
        let mut writer = ArgumentsWriter::new(blobs.len());
        for blob in blobs {
            writer.blob(blob.as_ref());
        }
        writer.finish()
    }

    /// Size in bytes on the wire.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The bytes on the wire: the count, then each blob with its length.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Collects the blobs of a call without a buffer for each.
#[derive(Debug)]
pub struct ArgumentsWriter {
    out: BytesMut,
}

impl ArgumentsWriter {
    /// Starts `count` arguments, all of which must be written.
    pub fn new(count: usize) -> Self {
        let mut out = BytesMut::with_capacity(4 + count * 16);
        out.collection_header(Some(count));
        Self { out }
    }

    /// One encoded argument.
    pub fn blob(&mut self, blob: &[u8]) {
        self.out.bytes(Some(blob));
    }

    /// All of them.
    pub fn finish(self) -> Arguments {
        Arguments(self.out.freeze())
    }
}

/// The type names of a call that travels by name (generic methods), and of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeNames {
    /// Strong form of the parameters' types.
    pub parameters: Vec<String>,
    /// Weak form of the same.
    pub parameters_by_name: Vec<ParameterType>,
    /// Strong form of the type arguments.
    pub generics: Vec<String>,
    /// Weak form of the same.
    pub generics_by_name: Vec<ParameterType>,
}

/// A request about to be written.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The token, empty for none.
    pub token: &'a str,
    /// Name of the method or event.
    pub method_name: &'a str,
    /// The encoded arguments.
    pub arguments: &'a Arguments,
    /// Type names, where the receiver needs them.
    pub types: Option<&'a TypeNames>,
    /// Stable over the attempts of one call.
    pub invocation_id: Uuid,
    /// Id of the contract.
    pub contract_id: i64,
    /// Id of the method, 0 for "look it up by name".
    pub method_id: i64,
    /// What libwitrpc adds for a libwitrpc peer.
    pub extension: Option<&'a [u8]>,
}

impl Call<'_> {
    /// Appends the payload.
    pub fn encode(&self, out: &mut impl Write) {
        let Some(types) = self.types else {
            const EMPTY: [u8; 16] = [0; 16];
            self.encode_head(out, [4; 4]);
            out.raw(&EMPTY);
            self.encode_tail(out);
            return;
        };
        let sizes = [
            strings_size(&types.parameters),
            types_size(&types.parameters_by_name),
            strings_size(&types.generics),
            types_size(&types.generics_by_name),
        ];
        self.encode_head(out, sizes);
        write_strings(out, &types.parameters);
        write_types(out, &types.parameters_by_name);
        write_strings(out, &types.generics);
        write_types(out, &types.generics_by_name);
        self.encode_tail(out);
    }

    fn encode_head(&self, out: &mut impl Write, types: [usize; 4]) {
        let lengths = [
            string_size(Some(self.token)),
            string_size(Some(self.method_name)),
            self.arguments.size(),
            types[0],
            types[1],
            types[2],
            types[3],
            16,
            8,
            8,
        ];
        write_header(out, &lengths, self.extension);
        out.string(Some(self.token));
        out.string(Some(self.method_name));
        out.raw(self.arguments.as_bytes());
    }

    fn encode_tail(&self, out: &mut impl Write) {
        out.guid(self.invocation_id);
        out.i64(self.contract_id);
        out.i64(self.method_id);
        write_extension(out, self.extension);
    }
}

fn strings_size(names: &[String]) -> usize {
    4 + names
        .iter()
        .map(|name| string_size(Some(name)))
        .sum::<usize>()
}

fn types_size(names: &[ParameterType]) -> usize {
    4 + names.iter().map(ParameterType::size).sum::<usize>()
}

fn write_strings(out: &mut impl Write, names: &[String]) {
    out.collection_header(Some(names.len()));
    for name in names {
        out.string(Some(name));
    }
}

fn write_types(out: &mut impl Write, names: &[ParameterType]) {
    out.collection_header(Some(names.len()));
    for name in names {
        name.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    #[test]
    fn a_call_has_the_bytes_of_the_request_it_stands_for() {
        let types = TypeNames {
            parameters: vec!["System.Int32, System.Private.CoreLib".into()],
            generics_by_name: vec![ParameterType {
                name: Some("System.Int32".into()),
                assembly: Some("System.Private.CoreLib".into()),
            }],
            ..TypeNames::default()
        };
        for types in [None, Some(&types)] {
            let call = Call {
                token: "t",
                method_name: "Add",
                arguments: &Arguments::from_blobs(&[&b"2"[..], b""]),
                types,
                invocation_id: Uuid::from_u128(1),
                contract_id: 2,
                method_id: 3,
                extension: Some(b"x"),
            };
            let mut bytes = BytesMut::new();
            call.encode(&mut bytes);
            let request = Request::decode(&bytes.clone().freeze()).unwrap().unwrap();
            assert_eq!(
                request.parameters,
                Some(vec![Some("2".into()), Some("".into())])
            );
            assert_eq!(request.extension.as_deref(), Some(&b"x"[..]));
            let mut again = BytesMut::new();
            request.encode(&mut again);
            assert_eq!(again, bytes);
        }
    }
}
