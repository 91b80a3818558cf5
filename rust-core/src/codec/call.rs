//! Whole argument lists, results and events, by the method or event that they belong to.

use bytes::Bytes;

use super::blob::Codec;
use super::error::{CodecError, Result};
use super::json::{self, Dialect, Reader, Token};
use super::schema::specialised;
use super::value::Value;
use crate::contract::{Event, Method, Param, Type, Types};

/// Arguments and results of a call.
impl Method {
    /// Encodes the arguments of a call, one blob each.
    ///
    /// # Errors
    /// When their number is wrong, naming both, or one does not fit its parameter, naming that one.
    pub fn encode_args(&self, codec: Codec, args: &[Value]) -> Result<Vec<Bytes>> {
        self.list()?.encode(codec, args)
    }

    /// Encodes the arguments of a call given as the text of a JSON array: `[2, 3]`.
    ///
    /// # Errors
    /// As for [`Method::encode_args`], and when the text is no JSON array. Offsets count from the
    /// start of the argument.
    pub fn encode_args_json(&self, codec: Codec, json: &str) -> Result<Vec<Bytes>> {
        self.list()?.encode_json(codec, json)
    }

    /// Decodes the arguments of a request.
    ///
    /// # Errors
    /// When their number is wrong, or one is not a value of its parameter; .NET servers would run
    /// the method with null or zero instead.
    pub fn decode_args(&self, codec: Codec, blobs: &[impl AsRef<[u8]>]) -> Result<Vec<Value>> {
        self.list()?.decode(codec, blobs, &[])
    }

    /// Decodes the arguments of a request to the text of a JSON array.
    ///
    /// # Errors
    /// As for [`Method::decode_args`].
    pub fn decode_args_json(&self, codec: Codec, blobs: &[impl AsRef<[u8]>]) -> Result<String> {
        let list = self.list()?;
        list.to_json(&list.decode(codec, blobs, &[])?)
    }

    /// Encodes a result; `None` for null and for methods without one, which travel as no data.
    ///
    /// # Errors
    /// When the value does not fit the return type.
    pub fn encode_result(&self, codec: Codec, value: &Value) -> Result<Option<Bytes>> {
        if value.is_null() && codec.accepts_null(self.returns()) {
            return Ok(None);
        }
        let mut out = Vec::new();
        codec
            .encode(&mut out, value, self.returns(), self.types())
            .map_err(CodecError::in_result)?;
        Ok(Some(out.into()))
    }

    /// Encodes a result given as JSON text.
    ///
    /// # Errors
    /// When the text is no JSON of the return type.
    pub fn encode_result_json(&self, codec: Codec, json: &str) -> Result<Option<Bytes>> {
        let value =
            Value::from_json(json, self.returns(), self.types()).map_err(CodecError::in_result)?;
        self.encode_result(codec, &value)
    }

    /// Decodes a result; no data is null.
    ///
    /// # Errors
    /// When the data is no value of the return type, or there is none where one is needed.
    pub fn decode_result(&self, codec: Codec, data: &[u8]) -> Result<Value> {
        codec
            .decode(data, self.returns(), self.types())
            .map_err(CodecError::in_result)
    }

    /// Decodes a result to JSON text; `null` for methods without one.
    ///
    /// # Errors
    /// As for [`Method::decode_result`].
    pub fn decode_result_json(&self, codec: Codec, data: &[u8]) -> Result<String> {
        self.result_to_json(&self.decode_result(codec, data)?)
    }

    /// A result as JSON text.
    ///
    /// # Errors
    /// When the value does not fit the return type.
    pub fn result_to_json(&self, value: &Value) -> Result<String> {
        value
            .to_json(self.returns(), self.types(), Dialect::Text)
            .map_err(CodecError::in_result)
    }

    /// Checks how many arguments there are.
    ///
    /// # Errors
    /// When the method takes another number, naming both.
    pub fn check_count(&self, count: usize) -> Result<()> {
        self.list()?.check_count(count)
    }

    fn list(&self) -> Result<ArgList<'_>> {
        self.check_closed()
            .map_err(|e| CodecError::new(e.to_string()))?;
        Ok(ArgList {
            owner: self.name(),
            params: self.params(),
            types: self.types(),
            place: CodecError::in_argument,
        })
    }
}

/// Arguments of an event.
impl Event {
    /// Encodes the arguments of an event, one blob each.
    ///
    /// # Errors
    /// As for [`Method::encode_args`].
    pub fn encode_args(&self, codec: Codec, args: &[Value]) -> Result<Vec<Bytes>> {
        self.list().encode(codec, args)
    }

    /// Encodes the arguments of an event given as the text of a JSON array.
    ///
    /// # Errors
    /// As for [`Method::encode_args_json`].
    pub fn encode_args_json(&self, codec: Codec, json: &str) -> Result<Vec<Bytes>> {
        self.list().encode_json(codec, json)
    }

    /// Decodes the arguments of an event. `wire_types` are the types that travelled with them, or
    /// empty: they decide where the event says `object` or a base class, since .NET writes
    /// arguments as what they are.
    ///
    /// # Errors
    /// As for [`Method::decode_args`].
    pub fn decode_args(
        &self,
        codec: Codec,
        blobs: &[impl AsRef<[u8]>],
        wire_types: &[Type],
    ) -> Result<Vec<Value>> {
        self.list().decode(codec, blobs, wire_types)
    }

    /// The arguments of an event as the text of a JSON array.
    ///
    /// # Errors
    /// When they do not fit the event.
    pub fn args_to_json(&self, args: &[Value]) -> Result<String> {
        self.list().to_json(args)
    }

    fn list(&self) -> ArgList<'_> {
        ArgList {
            owner: self.name(),
            params: self.args(),
            types: self.types(),
            place: CodecError::in_event_argument,
        }
    }
}

/// What methods and events have in common here.
struct ArgList<'a> {
    owner: &'a str,
    params: &'a [Param],
    types: &'a Types,
    /// Says in an error which argument it is.
    place: fn(CodecError, usize, Option<&str>) -> CodecError,
}

impl ArgList<'_> {
    fn check_count(&self, count: usize) -> Result<()> {
        let arguments = |n: usize| match n {
            1 => "1 argument".to_owned(),
            n => format!("{n} arguments"),
        };
        if count == self.params.len() {
            return Ok(());
        }
        Err(CodecError::new(format!(
            "{} takes {} and got {count}",
            self.owner,
            arguments(self.params.len())
        )))
    }

    fn placed<T>(&self, index: usize, result: Result<T>) -> Result<T> {
        result.map_err(|e| (self.place)(e, index, self.params[index].name()))
    }

    fn encode(&self, codec: Codec, args: &[Value]) -> Result<Vec<Bytes>> {
        self.check_count(args.len())?;
        let mut blobs = Blobs::new(self.params.len());
        for (i, (param, value)) in self.params.iter().zip(args).enumerate() {
            let written = codec.encode(&mut blobs.buffer, value, param.ty(), self.types);
            self.placed(i, written)?;
            blobs.end();
        }
        Ok(blobs.finish())
    }

    fn encode_json(&self, codec: Codec, text: &str) -> Result<Vec<Bytes>> {
        let mut reader = Reader::new(text);
        match reader.peek()? {
            Token::Array => reader.enter()?,
            token => {
                return Err(reader.error(format!(
                    "{} where a JSON array of the arguments is expected",
                    token.name()
                )));
            }
        }
        let mut blobs = Blobs::new(self.params.len());
        let mut count = 0;
        while reader.next_item(count == 0)? {
            match self.params.get(count) {
                Some(param) => {
                    reader.peek()?;
                    let start = reader.offset();
                    let written = json::read(&mut reader, param.ty(), self.types, Dialect::Text)
                        .map_err(|e| e.counted_from(start))
                        .and_then(|value| {
                            codec.encode(&mut blobs.buffer, &value, param.ty(), self.types)
                        });
                    self.placed(count, written)?;
                    blobs.end();
                }
                // Counted, so that the error can say how many there are.
                None => json::skip(&mut reader)?,
            }
            count += 1;
        }
        reader.end()?;
        self.check_count(count)?;
        Ok(blobs.finish())
    }

    fn decode(
        &self,
        codec: Codec,
        blobs: &[impl AsRef<[u8]>],
        wire_types: &[Type],
    ) -> Result<Vec<Value>> {
        self.check_count(blobs.len())?;
        self.params
            .iter()
            .zip(blobs)
            .enumerate()
            .map(|(i, (param, blob))| {
                let value = match wire_types.get(i) {
                    Some(wire) => specialised(param.ty(), wire, self.types, |ty| {
                        codec.decode(blob.as_ref(), ty, self.types)
                    }),
                    None => codec.decode(blob.as_ref(), param.ty(), self.types),
                };
                self.placed(i, value)
            })
            .collect()
    }

    fn to_json(&self, args: &[Value]) -> Result<String> {
        self.check_count(args.len())?;
        let mut out = vec![b'['];
        for (i, (param, value)) in self.params.iter().zip(args).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let written = json::write(&mut out, value, param.ty(), self.types, Dialect::Text, 1);
            self.placed(i, written)?;
        }
        out.push(b']');
        // Everything that is written comes from text or is ASCII.
        Ok(String::from_utf8(out).unwrap_or_default())
    }
}

/// Blobs that share one buffer.
struct Blobs {
    buffer: Vec<u8>,
    ends: Vec<usize>,
}

impl Blobs {
    fn new(count: usize) -> Self {
        Self {
            buffer: Vec::with_capacity(16 * count),
            ends: Vec::with_capacity(count),
        }
    }

    fn end(&mut self) {
        self.ends.push(self.buffer.len());
    }

    fn finish(self) -> Vec<Bytes> {
        let buffer = Bytes::from(self.buffer);
        let mut start = 0;
        self.ends
            .into_iter()
            .map(|end| {
                let blob = buffer.slice(start..end);
                start = end;
                blob
            })
            .collect()
    }
}
