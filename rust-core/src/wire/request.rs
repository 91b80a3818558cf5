//! A call, and with the same layout an event.

use bytes::Bytes;
use uuid::Uuid;

use super::memorypack::{Reader, Result, Write, string_size};
use super::tolerant::{Members, write_extension, write_header};

/// A type by name and simple assembly name, which a .NET reader may fail to resolve without
/// losing the whole request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParameterType {
    /// Full name as .NET gives it.
    pub name: Option<String>,
    /// Simple assembly name.
    pub assembly: Option<String>,
}

impl ParameterType {
    fn decode(reader: &mut Reader<'_>) -> Result<Option<Self>> {
        let Some(mut members) = Members::open(reader)? else {
            return Ok(None);
        };
        let value = Self {
            name: members.member(Reader::string)?,
            assembly: members.member(Reader::string)?,
        };
        members.finish()?;
        Ok(Some(value))
    }

    fn sizes(&self) -> [usize; 2] {
        [
            string_size(self.name.as_deref()),
            string_size(self.assembly.as_deref()),
        ]
    }

    pub(super) fn encode(&self, out: &mut impl Write) {
        write_header(out, &self.sizes(), None);
        out.string(self.name.as_deref());
        out.string(self.assembly.as_deref());
    }

    pub(super) fn size(&self) -> usize {
        let sizes = self.sizes();
        let mut header = Vec::with_capacity(16);
        write_header(&mut header, &sizes, None);
        header.len() + sizes.iter().sum::<usize>()
    }
}

/// A `T[]` that may be null and whose elements may be null.
type Nullable<T> = Option<Vec<Option<T>>>;

/// Everything a call carries. Arrays keep the difference between null and empty, because a .NET
/// server does.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The token, repeated with every call.
    pub token: Option<String>,
    /// Name of the method or event.
    pub method_name: Option<String>,
    /// One encoded argument each; a null argument is an empty blob.
    pub parameters: Nullable<Bytes>,
    /// Assembly-qualified type names (a .NET server resolves them while decoding).
    pub parameter_types: Nullable<String>,
    /// The same as name and assembly (resolved without failing).
    pub parameter_types_by_name: Nullable<ParameterType>,
    /// Type arguments of a generic method.
    pub generic_arguments: Nullable<String>,
    /// The same as name and assembly.
    pub generic_arguments_by_name: Nullable<ParameterType>,
    /// Stable over the attempts of one call; nil disables de-duplication.
    pub invocation_id: Uuid,
    /// Id of the contract, 0 for none.
    pub contract_id: i64,
    /// Id of the method, 0 for "look it up by name".
    pub method_id: i64,
    /// What a libwitrpc peer adds.
    pub extension: Option<Bytes>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The token and the arguments are the user's secrets.
        f.debug_struct("Request")
            .field("method_name", &self.method_name)
            .field("arguments", &self.parameters.as_ref().map(Vec::len))
            .field("invocation_id", &self.invocation_id)
            .field("contract_id", &self.contract_id)
            .field("method_id", &self.method_id)
            .finish_non_exhaustive()
    }
}

fn array<'a, T>(
    reader: &mut Reader<'a>,
    min_size: usize,
    mut read: impl FnMut(&mut Reader<'a>) -> Result<Option<T>>,
) -> Result<Nullable<T>> {
    let Some(count) = reader.collection_header(min_size)? else {
        return Ok(None);
    };
    (0..count)
        .map(|_| read(reader))
        .collect::<Result<_>>()
        .map(Some)
}

fn strings(reader: &mut Reader<'_>) -> Result<Nullable<String>> {
    array(reader, 4, Reader::string)
}

fn types(reader: &mut Reader<'_>) -> Result<Nullable<ParameterType>> {
    array(reader, 1, ParameterType::decode)
}

fn array_size<T>(value: &Nullable<T>, size: impl Fn(Option<&T>) -> usize) -> usize {
    4 + value
        .iter()
        .flatten()
        .map(|v| size(v.as_ref()))
        .sum::<usize>()
}

fn strings_size(value: &Nullable<String>) -> usize {
    array_size(value, |v| string_size(v.map(String::as_str)))
}

fn types_size(value: &Nullable<ParameterType>) -> usize {
    array_size(value, |v| v.map_or(1, ParameterType::size))
}

fn write_array<T, W: Write>(
    out: &mut W,
    value: &Nullable<T>,
    mut write: impl FnMut(&mut W, Option<&T>),
) {
    out.collection_header(value.as_ref().map(Vec::len));
    for item in value.iter().flatten() {
        write(out, item.as_ref());
    }
}

fn write_strings(out: &mut impl Write, value: &Nullable<String>) {
    write_array(out, value, |out, v| out.string(v.map(String::as_str)));
}

fn write_types(out: &mut impl Write, value: &Nullable<ParameterType>) {
    write_array(out, value, |out, v| match v {
        Some(ty) => ty.encode(out),
        None => out.u8(super::memorypack::NULL_OBJECT),
    });
}

impl Request {
    /// Reads the payload without copying the arguments; `Ok(None)` for a null object.
    pub fn decode(data: &Bytes) -> Result<Option<Self>> {
        let mut reader = Reader::new(data);
        let Some(mut members) = Members::open(&mut reader)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            token: members.member(Reader::string)?,
            method_name: members.member(Reader::string)?,
            parameters: members
                .member(|r| array(r, 4, |r| Ok(r.bytes()?.map(|part| data.slice_ref(part)))))?,
            parameter_types: members.member(strings)?,
            parameter_types_by_name: members.member(types)?,
            generic_arguments: members.member(strings)?,
            generic_arguments_by_name: members.member(types)?,
            invocation_id: members.member(Reader::guid)?,
            contract_id: members.member(Reader::i64)?,
            method_id: members.member(Reader::i64)?,
            extension: members.finish()?.map(|part| data.slice_ref(part)),
        }))
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut impl Write) {
        let extension = self.extension.as_deref();
        let lengths = [
            string_size(self.token.as_deref()),
            string_size(self.method_name.as_deref()),
            array_size(&self.parameters, |p| 4 + p.map_or(0, Bytes::len)),
            strings_size(&self.parameter_types),
            types_size(&self.parameter_types_by_name),
            strings_size(&self.generic_arguments),
            types_size(&self.generic_arguments_by_name),
            16,
            8,
            8,
        ];
        write_header(out, &lengths, extension);
        out.string(self.token.as_deref());
        out.string(self.method_name.as_deref());
        write_array(out, &self.parameters, |out, p| {
            out.bytes(p.map(AsRef::as_ref));
        });
        write_strings(out, &self.parameter_types);
        write_types(out, &self.parameter_types_by_name);
        write_strings(out, &self.generic_arguments);
        write_types(out, &self.generic_arguments_by_name);
        out.guid(self.invocation_id);
        out.i64(self.contract_id);
        out.i64(self.method_id);
        write_extension(out, extension);
    }
}
