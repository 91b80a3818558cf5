//! Framework types that are not scalars: collections, pairs, tuples, tasks, delegates and a few
//! that travel by name only.
//!
//! Owns their names, their assemblies at run time (of .NET 8 and later) and what kind of shape
//! they are; the shapes' encodings belong to the codecs.

use std::ops::RangeInclusive;

/// The assembly of the core types.
pub(super) const CORE: &str = "System.Private.CoreLib";
const COLLECTIONS: &str = "System.Collections";
const CONCURRENT: &str = "System.Collections.Concurrent";
const IMMUTABLE: &str = "System.Collections.Immutable";
const OBJECT_MODEL: &str = "System.ObjectModel";

/// What a framework type is to a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shape {
    /// A sequence of items in order.
    List,
    /// A sequence that .NET enumerates last in, first out.
    Stack,
    /// Keys with values.
    Map,
    /// `KeyValuePair`
    Pair,
    /// `Tuple`, the class; the eighth argument holds the rest.
    Tuple,
    /// `ValueTuple`, the struct of `(int, string)`; the eighth argument holds the rest.
    ValueTuple,
    /// `Task`: awaited by the server, so as a return type it means its result.
    Task,
    /// `Action`: an event's delegate whose arguments are the type arguments.
    Action,
    /// `Func`: the same, the last type argument is the result.
    Func,
    /// `EventHandler`: the arguments are `object` and the event's arguments.
    EventHandler,
    /// Known by name only.
    Opaque,
}

/// A framework type; all of them are in one static table.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Framework {
    namespace: &'static str,
    name: &'static str,
    arity: RangeInclusive<usize>,
    assembly: &'static str,
    shape: Shape,
    value_type: bool,
}

impl Framework {
    /// The namespace, such as `System.Collections.Generic`.
    pub fn namespace(&self) -> &'static str {
        self.namespace
    }

    /// The name without namespace and without the number of type parameters, such as `List`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it is to a codec.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether `X?` means `Nullable<X>`.
    pub fn is_value_type(&self) -> bool {
        self.value_type
    }

    /// The assembly that the type lives in at run time.
    pub(super) fn assembly(&self) -> &'static str {
        self.assembly
    }

    /// Looks a type up by its name without namespace, as C# source writes it.
    pub(super) fn by_short_name(name: &str, arity: usize) -> Option<&'static Framework> {
        let keyword = match name {
            "nint" => "IntPtr",
            "nuint" => "UIntPtr",
            other => other,
        };
        all().find(|t| t.name == keyword && t.arity.contains(&arity))
    }

    /// Looks a type up by namespace and name.
    pub(super) fn by_full_name(name: &str, arity: usize) -> Option<&'static Framework> {
        let (namespace, simple) = name.rsplit_once('.')?;
        all().find(|t| t.name == simple && t.namespace == namespace && t.arity.contains(&arity))
    }
}

const fn entry(
    namespace: &'static str,
    name: &'static str,
    arity: RangeInclusive<usize>,
    assembly: &'static str,
    shape: Shape,
) -> Framework {
    Framework {
        namespace,
        name,
        arity,
        assembly,
        shape,
        value_type: false,
    }
}

const fn value(entry: Framework) -> Framework {
    Framework {
        value_type: true,
        ..entry
    }
}

const fn generic(name: &'static str, arity: usize, shape: Shape) -> Framework {
    entry(
        "System.Collections.Generic",
        name,
        arity..=arity,
        CORE,
        shape,
    )
}

const fn collections(name: &'static str, arity: usize, shape: Shape) -> Framework {
    entry(
        "System.Collections.Generic",
        name,
        arity..=arity,
        COLLECTIONS,
        shape,
    )
}

const fn object_model(name: &'static str, assembly: &'static str, shape: Shape) -> Framework {
    let arity = if matches!(shape, Shape::Map) { 2 } else { 1 };
    entry(
        "System.Collections.ObjectModel",
        name,
        arity..=arity,
        assembly,
        shape,
    )
}

const fn concurrent(name: &'static str, assembly: &'static str, shape: Shape) -> Framework {
    let arity = if matches!(shape, Shape::Map) { 2 } else { 1 };
    entry(
        "System.Collections.Concurrent",
        name,
        arity..=arity,
        assembly,
        shape,
    )
}

const fn immutable(name: &'static str, shape: Shape) -> Framework {
    let arity = if matches!(shape, Shape::Map) { 2 } else { 1 };
    entry(
        "System.Collections.Immutable",
        name,
        arity..=arity,
        IMMUTABLE,
        shape,
    )
}

const fn system(name: &'static str, arity: RangeInclusive<usize>, shape: Shape) -> Framework {
    entry("System", name, arity, CORE, shape)
}

const fn opaque(namespace: &'static str, name: &'static str, assembly: &'static str) -> Framework {
    entry(namespace, name, 0..=0, assembly, Shape::Opaque)
}

/// The struct behind `(int, string)`.
pub(super) static VALUE_TUPLE: Framework = value(system("ValueTuple", 0..=8, Shape::ValueTuple));

/// The second argument of an `EventHandler`.
pub(super) static EVENT_ARGS: Framework = system("EventArgs", 0..=0, Shape::Opaque);

fn all() -> impl Iterator<Item = &'static Framework> {
    TABLE.iter().chain([&VALUE_TUPLE, &EVENT_ARGS])
}

static TABLE: &[Framework] = &[
    generic("List", 1, Shape::List),
    generic("HashSet", 1, Shape::List),
    generic("Queue", 1, Shape::List),
    generic("IEnumerable", 1, Shape::List),
    generic("IReadOnlyCollection", 1, Shape::List),
    generic("IReadOnlyList", 1, Shape::List),
    generic("IReadOnlySet", 1, Shape::List),
    generic("ICollection", 1, Shape::List),
    generic("IList", 1, Shape::List),
    generic("ISet", 1, Shape::List),
    generic("Dictionary", 2, Shape::Map),
    generic("IDictionary", 2, Shape::Map),
    generic("IReadOnlyDictionary", 2, Shape::Map),
    value(generic("KeyValuePair", 2, Shape::Pair)),
    generic("IAsyncEnumerable", 1, Shape::Opaque),
    collections("Stack", 1, Shape::Stack),
    collections("SortedSet", 1, Shape::List),
    collections("LinkedList", 1, Shape::List),
    collections("SortedDictionary", 2, Shape::Map),
    collections("SortedList", 2, Shape::Map),
    collections("PriorityQueue", 2, Shape::Opaque),
    object_model("Collection", CORE, Shape::List),
    object_model("ReadOnlyCollection", CORE, Shape::List),
    object_model("ReadOnlyDictionary", CORE, Shape::Map),
    object_model("ReadOnlySet", CORE, Shape::List),
    object_model("ObservableCollection", OBJECT_MODEL, Shape::List),
    object_model("ReadOnlyObservableCollection", OBJECT_MODEL, Shape::List),
    concurrent("ConcurrentDictionary", CONCURRENT, Shape::Map),
    concurrent("ConcurrentQueue", CORE, Shape::List),
    concurrent("ConcurrentStack", CONCURRENT, Shape::Stack),
    concurrent("ConcurrentBag", CONCURRENT, Shape::List),
    concurrent("BlockingCollection", CONCURRENT, Shape::List),
    value(immutable("ImmutableArray", Shape::List)),
    immutable("ImmutableList", Shape::List),
    immutable("ImmutableQueue", Shape::List),
    immutable("ImmutableStack", Shape::Stack),
    immutable("ImmutableHashSet", Shape::List),
    immutable("ImmutableSortedSet", Shape::List),
    immutable("ImmutableDictionary", Shape::Map),
    immutable("ImmutableSortedDictionary", Shape::Map),
    immutable("IImmutableList", Shape::List),
    immutable("IImmutableQueue", Shape::List),
    immutable("IImmutableStack", Shape::Stack),
    immutable("IImmutableSet", Shape::List),
    immutable("IImmutableDictionary", Shape::Map),
    system("Tuple", 1..=8, Shape::Tuple),
    system("Action", 0..=16, Shape::Action),
    system("Func", 1..=17, Shape::Func),
    system("EventHandler", 0..=1, Shape::EventHandler),
    system("Predicate", 1..=1, Shape::Opaque),
    system("Comparison", 1..=1, Shape::Opaque),
    system("IProgress", 1..=1, Shape::Opaque),
    system("Lazy", 1..=1, Shape::Opaque),
    value(system("Memory", 1..=1, Shape::Opaque)),
    value(system("ReadOnlyMemory", 1..=1, Shape::Opaque)),
    value(system("ArraySegment", 1..=1, Shape::Opaque)),
    value(system("IntPtr", 0..=0, Shape::Opaque)),
    value(system("UIntPtr", 0..=0, Shape::Opaque)),
    value(system("Index", 0..=0, Shape::Opaque)),
    value(system("Range", 0..=0, Shape::Opaque)),
    value(system("DayOfWeek", 0..=0, Shape::Opaque)),
    value(system("DateTimeKind", 0..=0, Shape::Opaque)),
    value(system("StringComparison", 0..=0, Shape::Opaque)),
    system("Exception", 0..=0, Shape::Opaque),
    system("Type", 0..=0, Shape::Opaque),
    system("Delegate", 0..=0, Shape::Opaque),
    system("Enum", 0..=0, Shape::Opaque),
    system("Array", 0..=0, Shape::Opaque),
    system("TimeZoneInfo", 0..=0, Shape::Opaque),
    system("IDisposable", 0..=0, Shape::Opaque),
    entry("System.Threading.Tasks", "Task", 0..=1, CORE, Shape::Task),
    value(entry(
        "System.Threading.Tasks",
        "ValueTask",
        0..=1,
        CORE,
        Shape::Opaque,
    )),
    value(opaque("System.Threading", "CancellationToken", CORE)),
    opaque("System.Collections", "IEnumerable", CORE),
    opaque("System.Collections", "ICollection", CORE),
    opaque("System.Collections", "IList", CORE),
    opaque("System.Collections", "IDictionary", CORE),
    opaque("System.Collections", "ArrayList", CORE),
    opaque("System.Collections", "Hashtable", CORE),
    opaque("System.Collections", "BitArray", CORE),
    opaque("System.IO", "Stream", CORE),
    opaque("System.IO", "MemoryStream", CORE),
    opaque("System.Text", "StringBuilder", CORE),
    opaque("System.Globalization", "CultureInfo", CORE),
    opaque("System.Net", "IPAddress", "System.Net.Primitives"),
    value(opaque(
        "System.Net",
        "HttpStatusCode",
        "System.Net.Primitives",
    )),
    value(opaque(
        "System.Numerics",
        "BigInteger",
        "System.Runtime.Numerics",
    )),
    value(opaque(
        "System.Numerics",
        "Complex",
        "System.Runtime.Numerics",
    )),
    value(opaque(
        "System.Text.Json",
        "JsonElement",
        "System.Text.Json",
    )),
    opaque("System.Text.Json", "JsonDocument", "System.Text.Json"),
    opaque("System.Text.Json.Nodes", "JsonNode", "System.Text.Json"),
    opaque("System.Text.Json.Nodes", "JsonObject", "System.Text.Json"),
    opaque("System.Text.Json.Nodes", "JsonArray", "System.Text.Json"),
];
