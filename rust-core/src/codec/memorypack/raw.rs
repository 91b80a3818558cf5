//! Types without references, which MemoryPack copies as they lie in the memory of .NET.
//!
//! Owns their layout: sizes, alignments, padding, and the order in which the runtime puts the
//! fields. Padding is written as zeros and not looked at when reading.

use std::sync::Arc;

use crate::codec::decimal::Decimal;
use crate::codec::error::{CodecError, Place, Result};
use crate::codec::json::tuple_items;
use crate::codec::number::Half;
use crate::codec::schema::{
    self, MAX_FIELDS, check_members, integer, member_type, member_value, mismatch,
};
use crate::codec::time::{
    DateOnly, DateTime, DateTimeKind, DateTimeOffset, MAX_TICKS, TimeOnly, TimeSpan,
};
use crate::codec::value::{Object, Value};
use crate::contract::{Form, Scalar, Shape, Type, TypeDef, TypeKind, Types};

/// A type without references, with its place in memory.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) size: usize,
    align: usize,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Scalar(Scalar),
    Enum(Scalar, Arc<str>),
    /// A flag, then the value at an offset.
    Nullable(Box<Raw>),
    /// Items of a pair or tuple, each with its offset.
    Tuple(Vec<(usize, Raw)>, Type),
    Struct(Vec<(usize, Arc<str>, Raw)>, Arc<str>),
}

/// Size of a scalar, which is also its alignment unless it is more than eight bytes.
fn scalar_layout(scalar: Scalar) -> Option<(usize, usize)> {
    Some(match scalar {
        Scalar::Bool | Scalar::SByte | Scalar::Byte => (1, 1),
        Scalar::Char | Scalar::Int16 | Scalar::UInt16 | Scalar::Half => (2, 2),
        Scalar::Int32 | Scalar::UInt32 | Scalar::Single | Scalar::DateOnly => (4, 4),
        Scalar::Int64
        | Scalar::UInt64
        | Scalar::Double
        | Scalar::DateTime
        | Scalar::TimeSpan
        | Scalar::TimeOnly => (8, 8),
        Scalar::Guid => (16, 4),
        Scalar::Decimal | Scalar::DateTimeOffset => (16, 8),
        Scalar::Int128 | Scalar::UInt128 => (16, 16),
        Scalar::String | Scalar::Uri | Scalar::Version | Scalar::Object => return None,
    })
}

/// Whether the runtime counts the scalar among the primitive types when it orders fields itself.
fn is_primitive(ty: &Type, types: &Types) -> bool {
    match ty {
        Type::Scalar(scalar) => matches!(
            scalar,
            Scalar::Bool
                | Scalar::Char
                | Scalar::SByte
                | Scalar::Byte
                | Scalar::Int16
                | Scalar::UInt16
                | Scalar::Int32
                | Scalar::UInt32
                | Scalar::Int64
                | Scalar::UInt64
                | Scalar::Single
                | Scalar::Double
        ),
        Type::Declared(declared) => matches!(
            types.definition(declared).map(TypeDef::kind),
            Some(TypeKind::Enum(_))
        ),
        _ => false,
    }
}

impl Raw {
    /// The layout of a type; `None` if it is or contains a reference, or is not known.
    pub(super) fn of(ty: &Type, types: &Types) -> Option<Raw> {
        let mut budget = MAX_FIELDS;
        Raw::within(ty, types, &mut budget)
    }

    /// The layout, as long as there are no more fields than `budget`.
    fn within(ty: &Type, types: &Types, budget: &mut usize) -> Option<Raw> {
        *budget = budget.checked_sub(1)?;
        match ty {
            Type::Scalar(scalar) => {
                let (size, align) = scalar_layout(*scalar)?;
                Some(Raw {
                    size,
                    align,
                    node: Node::Scalar(*scalar),
                })
            }
            Type::Nullable(inner) => {
                let inner = Raw::within(inner, types, budget)?;
                Some(Raw {
                    size: inner.align + inner.size.next_multiple_of(inner.align),
                    align: inner.align,
                    node: Node::Nullable(Box::new(inner)),
                })
            }
            Type::Framework(framework, args) => match framework.shape() {
                Shape::Pair => Raw::sequential(args, ty, types, budget),
                Shape::ValueTuple => Raw::automatic(args, ty, types, budget),
                _ => None,
            },
            Type::Declared(declared) => match types.definition(declared)?.kind() {
                TypeKind::Enum(def) => {
                    let (size, align) = scalar_layout(def.underlying())?;
                    Some(Raw {
                        size,
                        align,
                        node: Node::Enum(def.underlying(), declared.name().into()),
                    })
                }
                TypeKind::Record(record) if record.form() == Form::Struct => {
                    let mut at = 0_usize;
                    let mut align = 1;
                    let mut fields = Vec::new();
                    for member in record.members() {
                        let ty = member_type(member, declared.args());
                        let raw = Raw::within(&ty, types, budget)?;
                        at = at.next_multiple_of(raw.align);
                        align = align.max(raw.align);
                        let size = raw.size;
                        fields.push((at, member.name_arc().clone(), raw));
                        at += size;
                    }
                    Some(Raw {
                        // An empty struct has a byte all the same.
                        size: at.max(1).next_multiple_of(align),
                        align,
                        node: Node::Struct(fields, declared.name().into()),
                    })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Fields in the order of their declaration.
    fn sequential(args: &[Type], ty: &Type, types: &Types, budget: &mut usize) -> Option<Raw> {
        let mut at = 0_usize;
        let mut align = 1;
        let mut fields = Vec::new();
        for arg in args {
            let raw = Raw::within(arg, types, budget)?;
            at = at.next_multiple_of(raw.align);
            align = align.max(raw.align);
            let size = raw.size;
            fields.push((at, raw));
            at += size;
        }
        Some(Raw {
            size: at.next_multiple_of(align),
            align,
            node: Node::Tuple(fields, ty.clone()),
        })
    }

    /// Fields as the runtime puts them: primitives by size, the greatest first, then structs.
    fn automatic(args: &[Type], ty: &Type, types: &Types, budget: &mut usize) -> Option<Raw> {
        let raws = args
            .iter()
            .map(|arg| Raw::within(arg, types, budget))
            .collect::<Option<Vec<_>>>()?;
        let mut order: Vec<usize> = (0..args.len()).collect();
        order.sort_by_key(|i| match is_primitive(&args[*i], types) {
            true => (0, usize::MAX - raws[*i].size),
            false => (1, 0),
        });
        let mut at = 0_usize;
        let mut offsets = vec![0; args.len()];
        for i in order {
            at = at.next_multiple_of(raws[i].align);
            offsets[i] = at;
            at += raws[i].size;
        }
        let widest = raws.iter().map(|raw| raw.align).max().unwrap_or(1);
        // Up to eight bytes the runtime rounds to a power of two and aligns by it.
        let align = if widest > 8 {
            widest
        } else {
            at.max(1).next_power_of_two().min(8)
        };
        Some(Raw {
            size: at.max(1).next_multiple_of(align),
            align,
            node: Node::Tuple(offsets.into_iter().zip(raws).collect(), ty.clone()),
        })
    }

    /// Writes a value into `out`, which has the size of the type and is zero.
    pub(super) fn write(&self, out: &mut [u8], value: &Value, types: &Types) -> Result<()> {
        match &self.node {
            Node::Scalar(scalar) => write_scalar(out, value, *scalar),
            Node::Enum(scalar, name) => {
                if value.as_i128().is_none() {
                    return Err(mismatch(value.kind(), name));
                }
                write_scalar(out, value, *scalar)
            }
            Node::Nullable(inner) => {
                if value.is_null() {
                    return Ok(());
                }
                out[0] = 1;
                inner.write(&mut out[inner.align..][..inner.size], value, types)
            }
            Node::Tuple(fields, ty) => {
                let args = match ty {
                    Type::Framework(_, args) => &args[..],
                    _ => &[],
                };
                let items = tuple_items(value, ty, args)?;
                for (i, ((at, raw), item)) in fields.iter().zip(items).enumerate() {
                    raw.write(&mut out[*at..][..raw.size], item, types)
                        .in_item(i)?;
                }
                Ok(())
            }
            Node::Struct(fields, name) => {
                let Value::Object(object) = value else {
                    return Err(mismatch(value.kind(), name));
                };
                if let Some(TypeKind::Record(record)) = types.get(name).map(TypeDef::kind) {
                    check_members(object, record)?;
                }
                for (i, (at, name, raw)) in fields.iter().enumerate() {
                    // A missing member is zero, which is the default of all these types.
                    if let Some(item) = member_value(object, i, name) {
                        raw.write(&mut out[*at..][..raw.size], item, types)
                            .in_member(name)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads a value from bytes of the size of the type.
    pub(super) fn read(&self, bytes: &[u8]) -> Result<Value> {
        match &self.node {
            Node::Scalar(scalar) | Node::Enum(scalar, _) => read_scalar(bytes, *scalar),
            Node::Nullable(_) if bytes[0] == 0 => Ok(Value::Null),
            Node::Nullable(inner) => inner.read(&bytes[inner.align..][..inner.size]),
            Node::Tuple(fields, _) => fields
                .iter()
                .enumerate()
                .map(|(i, (at, raw))| raw.read(&bytes[*at..][..raw.size]).in_item(i))
                .collect::<Result<_>>()
                .map(Value::List),
            Node::Struct(fields, _) => {
                let members = fields
                    .iter()
                    .map(|(at, name, raw)| {
                        let value = raw.read(&bytes[*at..][..raw.size]).in_member(name)?;
                        Ok((name.clone(), value))
                    })
                    .collect::<Result<_>>()?;
                Ok(Value::Object(Box::new(Object {
                    type_name: None,
                    members,
                })))
            }
        }
    }
}

/// An entry of a dictionary without references, which is copied like a `KeyValuePair`.
#[derive(Debug)]
pub(super) struct RawEntry {
    pub(super) size: usize,
    key: Raw,
    value: Raw,
    value_at: usize,
}

impl RawEntry {
    /// The layout of an entry; `None` if its key or its value is or contains a reference.
    pub(super) fn of(key: &Type, value: &Type, types: &Types) -> Option<RawEntry> {
        let key = Raw::of(key, types)?;
        let value = Raw::of(value, types)?;
        let value_at = key.size.next_multiple_of(value.align);
        Some(RawEntry {
            size: (value_at + value.size).next_multiple_of(key.align.max(value.align)),
            key,
            value,
            value_at,
        })
    }

    /// Writes an entry into `out`, which has its size and is zero.
    pub(super) fn write(
        &self,
        out: &mut [u8],
        key: &Value,
        value: &Value,
        types: &Types,
    ) -> Result<()> {
        self.key.write(&mut out[..self.key.size], key, types)?;
        let out = &mut out[self.value_at..][..self.value.size];
        self.value.write(out, value, types)
    }

    /// Reads an entry from bytes of its size.
    pub(super) fn read(&self, bytes: &[u8]) -> Result<(Value, Value)> {
        Ok((
            self.key.read(&bytes[..self.key.size])?,
            self.value
                .read(&bytes[self.value_at..][..self.value.size])?,
        ))
    }
}

fn put<const N: usize>(out: &mut [u8], bytes: [u8; N]) {
    out[..N].copy_from_slice(&bytes);
}

/// Writes a scalar in its raw form.
pub(super) fn write_scalar(out: &mut [u8], value: &Value, scalar: Scalar) -> Result<()> {
    match scalar {
        Scalar::Bool => out[0] = schema::boolean(value)?.into(),
        Scalar::Char => put(out, schema::character(value)?.to_le_bytes()),
        Scalar::Half => put(out, schema::half(value)?.to_bits().to_le_bytes()),
        Scalar::Single => put(out, schema::single(value)?.to_le_bytes()),
        Scalar::Double => put(out, schema::double(value)?.to_le_bytes()),
        Scalar::Decimal => {
            let decimal = schema::decimal(value)?;
            let sign = u32::from(decimal.is_negative()) << 31;
            let flags = sign | (u32::from(decimal.scale()) << 16);
            let mantissa = decimal.mantissa();
            put(out, flags.to_le_bytes());
            put(&mut out[4..], ((mantissa >> 64) as u32).to_le_bytes());
            put(&mut out[8..], (mantissa as u64).to_le_bytes());
        }
        Scalar::Guid => put(out, schema::guid(value)?.to_bytes_le()),
        Scalar::DateTime => {
            let time = schema::date_time(value)?;
            let kind: u64 = match time.kind() {
                DateTimeKind::Unspecified => 0,
                DateTimeKind::Utc => 1,
                DateTimeKind::Local => 2,
            };
            put(
                out,
                (time.ticks().cast_unsigned() | kind << 62).to_le_bytes(),
            );
        }
        Scalar::DateTimeOffset => {
            let time = schema::date_time_offset(value)?;
            put(out, i32::from(time.offset_minutes()).to_le_bytes());
            put(&mut out[8..], time.utc_ticks().to_le_bytes());
        }
        Scalar::TimeSpan => put(out, schema::time_span(value)?.ticks().to_le_bytes()),
        Scalar::DateOnly => put(out, schema::date_only(value)?.day_number().to_le_bytes()),
        Scalar::TimeOnly => put(out, schema::time_only(value)?.ticks().to_le_bytes()),
        Scalar::UInt128 => match value.as_u128() {
            Some(number) => put(out, number.to_le_bytes()),
            None => return integer(value, scalar).map(|_| ()),
        },
        _ if scalar.is_integer() => {
            // The low bytes of the wide integer are those of the narrow one.
            let bytes = integer(value, scalar)?.to_le_bytes();
            let size = out.len();
            out.copy_from_slice(&bytes[..size]);
        }
        _ => return Err(mismatch(value.kind(), scalar.short_name())),
    }
    Ok(())
}

fn take<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[..N]);
    out
}

/// Reads a scalar in its raw form.
pub(super) fn read_scalar(bytes: &[u8], scalar: Scalar) -> Result<Value> {
    let wrong = || CodecError::new(format!("not a valid {}", scalar.short_name()));
    Ok(match scalar {
        Scalar::Bool => Value::Bool(bytes[0] != 0),
        Scalar::Char => Value::Char(u16::from_le_bytes(take(bytes))),
        Scalar::SByte => i8::from_le_bytes(take(bytes)).into(),
        Scalar::Byte => bytes[0].into(),
        Scalar::Int16 => i16::from_le_bytes(take(bytes)).into(),
        Scalar::UInt16 => u16::from_le_bytes(take(bytes)).into(),
        Scalar::Int32 => i32::from_le_bytes(take(bytes)).into(),
        Scalar::UInt32 => u32::from_le_bytes(take(bytes)).into(),
        Scalar::Int64 => i64::from_le_bytes(take(bytes)).into(),
        Scalar::UInt64 => u64::from_le_bytes(take(bytes)).into(),
        Scalar::Int128 => i128::from_le_bytes(take(bytes)).into(),
        Scalar::UInt128 => u128::from_le_bytes(take(bytes)).into(),
        Scalar::Half => Value::Half(Half::from_bits(u16::from_le_bytes(take(bytes)))),
        Scalar::Single => Value::Single(f32::from_le_bytes(take(bytes))),
        Scalar::Double => Value::Double(f64::from_le_bytes(take(bytes))),
        Scalar::Decimal => {
            let flags = u32::from_le_bytes(take(bytes));
            let high = u32::from_le_bytes(take(&bytes[4..]));
            let low = u64::from_le_bytes(take(&bytes[8..]));
            let mantissa = u128::from(high) << 64 | u128::from(low);
            let scale = (flags >> 16) as u8;
            Value::Decimal(
                Decimal::from_parts(flags >> 31 == 1, mantissa, scale).ok_or_else(wrong)?,
            )
        }
        Scalar::Guid => Value::Guid(uuid::Uuid::from_bytes_le(take(bytes))),
        Scalar::DateTime => {
            let bits = u64::from_le_bytes(take(bytes));
            let kind = match bits >> 62 {
                0 => DateTimeKind::Unspecified,
                1 => DateTimeKind::Utc,
                // 3 is local too, in the hour that a clock shows twice.
                _ => DateTimeKind::Local,
            };
            let ticks = (bits & ((1 << 62) - 1)).cast_signed();
            Value::DateTime(DateTime::from_ticks(ticks, kind).ok_or_else(wrong)?)
        }
        Scalar::DateTimeOffset => {
            // Older runtimes have an int16 here, and whatever in the two bytes after it.
            let minutes = i16::from_le_bytes(take(bytes));
            let utc = i64::from_le_bytes(take(&bytes[8..]));
            let valid = (0..=MAX_TICKS).contains(&utc);
            let time = DateTimeOffset::from_utc_ticks(utc, minutes).filter(|_| valid);
            Value::DateTimeOffset(time.ok_or_else(wrong)?)
        }
        Scalar::TimeSpan => Value::TimeSpan(TimeSpan::from_ticks(i64::from_le_bytes(take(bytes)))),
        Scalar::DateOnly => {
            let day = DateOnly::from_day_number(i32::from_le_bytes(take(bytes)));
            Value::DateOnly(day.ok_or_else(wrong)?)
        }
        Scalar::TimeOnly => {
            let time = TimeOnly::from_ticks(i64::from_le_bytes(take(bytes)));
            Value::TimeOnly(time.ok_or_else(wrong)?)
        }
        _ => return Err(wrong()),
    })
}

/// Size of a scalar's raw form; `None` for references.
pub(super) fn scalar_size(scalar: Scalar) -> Option<usize> {
    scalar_layout(scalar).map(|(size, _)| size)
}
