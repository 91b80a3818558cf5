//! MemoryPack's version-tolerant object: a member count, the length of each member, the members.
//!
//! Owns the walk over such an object. As the reference does, lengths of known members are not
//! enforced (a length of 0 means "absent"), unknown members at the end are skipped by theirs.

use super::memorypack::{NULL_OBJECT, Reader, Result, Write};

/// Reads the header of an object and then its members one by one.
pub(super) struct Members<'a, 'r> {
    reader: &'r mut Reader<'a>,
    /// Lengths not consumed yet, in member order.
    lengths: Reader<'a>,
    left: u8,
}

impl<'a, 'r> Members<'a, 'r> {
    /// Starts on an object; `None` for a null object.
    pub(super) fn open(reader: &'r mut Reader<'a>) -> Result<Option<Self>> {
        let Some(count) = reader.object_header()? else {
            return Ok(None);
        };
        let lengths = reader.clone();
        for _ in 0..count {
            let start = reader.clone();
            if reader.varint()? < 0 {
                return Err(start.error("a member length is negative"));
            }
        }
        Ok(Some(Self {
            reader,
            lengths,
            left: count,
        }))
    }

    /// Length of the next member; `None` when the object has no further one or lists it as absent.
    fn next_length(&mut self) -> Result<Option<usize>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let length = self.lengths.varint()?;
        Ok(usize::try_from(length).ok().filter(|n| *n > 0))
    }

    /// The next member read by `read`, or the default where it is absent.
    pub(super) fn member<T: Default>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<T> {
        match self.next_length()? {
            Some(_) => read(self.reader),
            None => Ok(T::default()),
        }
    }

    /// Skips members that this version does not know. A libwitrpc extension is the last of them:
    /// its bytes are returned if the last member is a byte array, and nothing else is looked at.
    pub(super) fn finish(mut self) -> Result<Option<&'a [u8]>> {
        let mut last = None;
        while self.left > 0 {
            if let Some(length) = self.next_length()? {
                last = Some(self.reader.take(length)?);
            }
        }
        Ok(last.and_then(|bytes| Reader::new(bytes).bytes().ok().flatten()))
    }
}

/// Writes the header of an object whose members have the given lengths. `extension` adds the
/// length of one more byte array at the end, which [`write_extension`] must then write.
pub(super) fn write_header(out: &mut impl Write, lengths: &[usize], extension: Option<&[u8]>) {
    let count = lengths.len() + usize::from(extension.is_some());
    debug_assert!(count < usize::from(NULL_OBJECT));
    out.u8(count as u8);
    for length in lengths {
        out.varint(*length);
    }
    if let Some(bytes) = extension {
        out.varint(4 + bytes.len());
    }
}

/// Writes the extension member announced to [`write_header`], if there is one.
pub(super) fn write_extension(out: &mut impl Write, extension: Option<&[u8]>) {
    if extension.is_some() {
        out.bytes(extension);
    }
}
