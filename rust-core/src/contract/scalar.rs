//! The built-in scalars: their C# keywords, their .NET names, and whether they are value types.
//!
//! Owns names only; how a scalar is encoded is the business of the codecs.

/// A built-in type that holds one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scalar {
    /// `bool`
    Bool,
    /// `char`: one UTF-16 unit
    Char,
    /// `sbyte`
    SByte,
    /// `byte`
    Byte,
    /// `short`
    Int16,
    /// `ushort`
    UInt16,
    /// `int`
    Int32,
    /// `uint`
    UInt32,
    /// `long`
    Int64,
    /// `ulong`
    UInt64,
    /// `Int128`
    Int128,
    /// `UInt128`
    UInt128,
    /// `Half`: an IEEE half
    Half,
    /// `float`
    Single,
    /// `double`
    Double,
    /// `decimal`
    Decimal,
    /// `string`
    String,
    /// `Guid`
    Guid,
    /// `DateTime`
    DateTime,
    /// `DateTimeOffset`
    DateTimeOffset,
    /// `TimeSpan`
    TimeSpan,
    /// `DateOnly`
    DateOnly,
    /// `TimeOnly`
    TimeOnly,
    /// `Uri`: travels as its text
    Uri,
    /// `Version`
    Version,
    /// `object`: anything
    Object,
}

impl Scalar {
    /// All scalars, for look-ups by name.
    pub(super) const ALL: [Scalar; 26] = [
        Scalar::Bool,
        Scalar::Char,
        Scalar::SByte,
        Scalar::Byte,
        Scalar::Int16,
        Scalar::UInt16,
        Scalar::Int32,
        Scalar::UInt32,
        Scalar::Int64,
        Scalar::UInt64,
        Scalar::Int128,
        Scalar::UInt128,
        Scalar::Half,
        Scalar::Single,
        Scalar::Double,
        Scalar::Decimal,
        Scalar::String,
        Scalar::Guid,
        Scalar::DateTime,
        Scalar::DateTimeOffset,
        Scalar::TimeSpan,
        Scalar::DateOnly,
        Scalar::TimeOnly,
        Scalar::Uri,
        Scalar::Version,
        Scalar::Object,
    ];

    /// The .NET full name, such as `System.Int32`.
    pub fn full_name(self) -> &'static str {
        match self {
            Scalar::Bool => "System.Boolean",
            Scalar::Char => "System.Char",
            Scalar::SByte => "System.SByte",
            Scalar::Byte => "System.Byte",
            Scalar::Int16 => "System.Int16",
            Scalar::UInt16 => "System.UInt16",
            Scalar::Int32 => "System.Int32",
            Scalar::UInt32 => "System.UInt32",
            Scalar::Int64 => "System.Int64",
            Scalar::UInt64 => "System.UInt64",
            Scalar::Int128 => "System.Int128",
            Scalar::UInt128 => "System.UInt128",
            Scalar::Half => "System.Half",
            Scalar::Single => "System.Single",
            Scalar::Double => "System.Double",
            Scalar::Decimal => "System.Decimal",
            Scalar::String => "System.String",
            Scalar::Guid => "System.Guid",
            Scalar::DateTime => "System.DateTime",
            Scalar::DateTimeOffset => "System.DateTimeOffset",
            Scalar::TimeSpan => "System.TimeSpan",
            Scalar::DateOnly => "System.DateOnly",
            Scalar::TimeOnly => "System.TimeOnly",
            Scalar::Uri => "System.Uri",
            Scalar::Version => "System.Version",
            Scalar::Object => "System.Object",
        }
    }

    /// How C# writes it: the keyword where there is one, else the name without its namespace.
    pub fn short_name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::Char => "char",
            Scalar::SByte => "sbyte",
            Scalar::Byte => "byte",
            Scalar::Int16 => "short",
            Scalar::UInt16 => "ushort",
            Scalar::Int32 => "int",
            Scalar::UInt32 => "uint",
            Scalar::Int64 => "long",
            Scalar::UInt64 => "ulong",
            Scalar::Single => "float",
            Scalar::Double => "double",
            Scalar::Decimal => "decimal",
            Scalar::String => "string",
            Scalar::Object => "object",
            _ => &self.full_name()["System.".len()..],
        }
    }

    /// The assembly that the type lives in at run time.
    pub(super) fn assembly(self) -> &'static str {
        match self {
            Scalar::Uri => "System.Private.Uri",
            _ => super::framework::CORE,
        }
    }

    /// Whether `X?` means `Nullable<X>`.
    pub fn is_value_type(self) -> bool {
        !matches!(
            self,
            Scalar::String | Scalar::Uri | Scalar::Version | Scalar::Object
        )
    }

    /// Whether it is one of the integer types, `char` and `bool` not counted.
    pub fn is_integer(self) -> bool {
        self.integer_range().is_some()
    }

    /// The least and the greatest value of an integer type; the greatest of `UInt128` is cut to
    /// that of an `i128`.
    pub fn integer_range(self) -> Option<(i128, i128)> {
        Some(match self {
            Scalar::SByte => (i8::MIN.into(), i8::MAX.into()),
            Scalar::Byte => (0, u8::MAX.into()),
            Scalar::Int16 => (i16::MIN.into(), i16::MAX.into()),
            Scalar::UInt16 => (0, u16::MAX.into()),
            Scalar::Int32 => (i32::MIN.into(), i32::MAX.into()),
            Scalar::UInt32 => (0, u32::MAX.into()),
            Scalar::Int64 => (i64::MIN.into(), i64::MAX.into()),
            Scalar::UInt64 => (0, u64::MAX.into()),
            Scalar::Int128 => (i128::MIN, i128::MAX),
            Scalar::UInt128 => (0, i128::MAX),
            _ => return None,
        })
    }

    /// The scalar that C# source calls `name`, by keyword or by simple name (`Int32`).
    pub(super) fn by_short_name(name: &str) -> Option<Scalar> {
        if name == "dynamic" {
            return Some(Scalar::Object);
        }
        Scalar::ALL
            .into_iter()
            .find(|s| s.short_name() == name || &s.full_name()["System.".len()..] == name)
    }

    /// The scalar with this .NET full name.
    pub(super) fn by_full_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.into_iter().find(|s| s.full_name() == name)
    }
}
