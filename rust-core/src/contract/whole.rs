//! A contract as a whole: making one, and looking methods and events up in it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::build::{self, ContractError};
use super::declared::Types;
use super::document::{Document, TypeDecl};
use super::id::stable_id;
use super::method::{Event, Head, Method};
use super::names::{self, NameError};
use super::parse;
use super::resolve::{Scope, definition_name};
use super::select::select;
use super::syntax::{Line, ParseError, TypeNode, TypeSyntax};
use super::types::{Named, Type};

/// A service as seen from outside: its name, methods, events and data types. Cheap to clone.
///
/// An *open* contract lists no methods and no events; then any line is accepted. Otherwise lines
/// are looked up among those listed, so that a mistyped one is noticed before it is sent.
#[derive(Debug, Clone)]
pub struct Contract(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    document: Document,
    head: Arc<Head>,
    methods: Vec<Method>,
    /// `add_X` and `remove_X` of the events.
    accessors: Vec<Method>,
    by_id: HashMap<i64, Method, BuildHasherDefault<IdHasher>>,
    by_name: HashMap<Arc<str>, Vec<Method>>,
    events: Vec<Event>,
    events_by_name: HashMap<Arc<str>, usize>,
}

/// Ids are hashes already.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_i64(&mut self, id: i64) {
        self.0 = id.cast_unsigned();
    }
}

/// Collects the parts of a contract.
///
/// ```
/// use witrpc::contract::{Contract, TypeDecl};
///
/// let contract = Contract::builder("Demo.IEcho")
///     .assembly("Demo.Contracts")
///     .declare(TypeDecl::enumeration("Demo.Color").value("Red", 0).value("Blue", 7))
///     .method("Color? MaybePaint(Color? value)")
///     .event("Action<int> Progress")
///     .build()
///     .unwrap();
/// assert_eq!(contract.methods().len(), 1);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it builds"]
pub struct ContractBuilder {
    document: Document,
}

impl ContractBuilder {
    /// The simple name of the assembly that holds the contract and its types, such as
    /// `Demo.Contracts`. Needed where type names travel: generic methods and events.
    pub fn assembly(mut self, name: &str) -> Self {
        self.document.assembly = Some(name.into());
        self
    }

    /// Declares a data type. The order does not matter.
    pub fn declare(mut self, decl: TypeDecl) -> Self {
        self.document.types.push(decl);
        self
    }

    /// Lists a method or a property by its line.
    pub fn method(mut self, line: &str) -> Self {
        self.document.methods.push(line.into());
        self
    }

    /// Lists an event by its line; the word `event` may be left out.
    pub fn event(mut self, line: &str) -> Self {
        self.document.events.push(line.into());
        self
    }

    /// Checks everything and makes the contract.
    ///
    /// # Errors
    /// With the place of the first thing that is wrong.
    pub fn build(self) -> Result<Contract, ContractError> {
        Contract::from_document(self.document)
    }
}

impl Contract {
    /// Starts a contract with this name: `Demo.IEcho`, `Demo.Outer+IInner`, `Demo.IRepo<string>`.
    pub fn builder(name: &str) -> ContractBuilder {
        ContractBuilder {
            document: Document {
                contract: name.into(),
                ..Document::default()
            },
        }
    }

    /// A contract of which nothing but the name is known; it accepts any line.
    ///
    /// # Errors
    /// When the name is no type name.
    pub fn open(name: &str) -> Result<Contract, ContractError> {
        Self::builder(name).build()
    }

    /// Reads the exchange form, `*.witrpc.json` (`docs/contract-format.md`).
    ///
    /// # Errors
    /// With line and column when the document is not of that form, and with the place of the first
    /// thing in it that is wrong.
    pub fn from_json(text: &str) -> Result<Contract, ContractError> {
        let document = serde_json::from_str(text).map_err(|e| {
            let place = format!("line {} column {}", e.line(), e.column());
            let message = e.to_string();
            // The place is said once.
            let message = message
                .strip_suffix(&format!(" at {place}"))
                .unwrap_or(&message);
            ContractError::new(place, message)
        })?;
        Self::from_document(document)
    }

    /// Writes the exchange form, indented, with the lines as they were given.
    pub fn to_json(&self) -> String {
        // A document of strings, numbers and lists always has a JSON form.
        serde_json::to_string_pretty(&self.0.document).unwrap_or_default()
    }

    fn from_document(document: Document) -> Result<Contract, ContractError> {
        let types = Arc::new(build::types(
            &document.types,
            &document.defaults,
            document.assembly.as_deref(),
        )?);
        let name = contract_name(&document.contract, &types)
            .map_err(|message| ContractError::new("contract", message))?;
        let head = Arc::new(Head {
            id: stable_id(&name),
            name,
            types,
        });
        let mut inner = Inner {
            head: head.clone(),
            methods: Vec::new(),
            accessors: Vec::new(),
            by_id: HashMap::default(),
            by_name: HashMap::new(),
            events: Vec::new(),
            events_by_name: HashMap::new(),
            document: Document::default(),
        };
        for (i, line) in document.methods.iter().enumerate() {
            let place = || format!("methods[{i}] {line:?}");
            let methods = methods_of_line(&head, line)
                .map_err(|e| ContractError::new(place(), e.to_string()))?;
            for method in methods {
                inner
                    .add_method(method)
                    .map_err(|message| ContractError::new(place(), message))?;
            }
        }
        for (i, line) in document.events.iter().enumerate() {
            let place = || format!("events[{i}] {line:?}");
            let event = event_of_line(&head, line)
                .map_err(|e| ContractError::new(place(), e.to_string()))?;
            inner
                .add_event(event)
                .map_err(|message| ContractError::new(place(), message))?;
        }
        inner.document = document;
        Ok(Contract(Arc::new(inner)))
    }

    /// The stable name, such as `Demo.IRepo<System.String>`.
    pub fn name(&self) -> &str {
        &self.0.head.name
    }

    /// The id that requests and events carry.
    pub fn id(&self) -> i64 {
        self.0.head.id
    }

    /// The assembly, when given.
    pub fn assembly(&self) -> Option<&str> {
        self.0.document.assembly.as_deref()
    }

    /// Whether any line is accepted: no methods and no events are listed.
    pub fn is_open(&self) -> bool {
        self.0.methods.is_empty() && self.0.events.is_empty()
    }

    /// The listed methods; a property gives its accessors.
    pub fn methods(&self) -> &[Method] {
        &self.0.methods
    }

    /// `add_X` and `remove_X` of the listed events. .NET servers answer them with an empty success.
    pub fn event_accessors(&self) -> &[Method] {
        &self.0.accessors
    }

    /// The listed events.
    pub fn events(&self) -> &[Event] {
        &self.0.events
    }

    /// The declared data types.
    pub fn types(&self) -> &Types {
        &self.0.head.types
    }

    /// The method that a line means: `int Add(int a, int b)`, or without the return type
    /// `Add(int, int)`. With a contract that lists its methods, the listed one is given, and a name
    /// alone is enough if it has no overloads.
    ///
    /// Of a generic method a line is open (`T Echo<T>(T value)`) or gives the type arguments: closed,
    /// as `int Echo<int>(int value)`, or as `T Echo<T>(T value) where T = int`; where the method is
    /// listed, `Echo<int>` is enough.
    ///
    /// # Errors
    /// With the column when the line is not understood, and when the contract lists methods but not
    /// this one.
    pub fn method(&self, line: &str) -> Result<Method, ParseError> {
        match parse::parse_line(line)? {
            Line::Word { name, args } => self.method_by_word(&name, &args),
            Line::Method(syntax) => {
                let method = Method::from_syntax(&self.0.head, &syntax)?;
                if self.is_open() {
                    return Ok(method);
                }
                self.listed(&method)
            }
            Line::Event { name, .. } => Err(ParseError::new(
                1,
                format!("{name} is an event, expected a method"),
            )),
            Line::Property { name, .. } | Line::Plain { name, .. } => Err(ParseError::new(
                1,
                format!("{name} is a property: its methods are get_{name}() and set_{name}(...)"),
            )),
        }
    }

    /// The listed method that is the same; with its type arguments, if they were given.
    fn listed(&self, method: &Method) -> Result<Method, ParseError> {
        let name = method.name();
        if !method.is_generic() || method.is_open() {
            let mut overloads = self.overloads(name).iter();
            return overloads
                .find(|listed| listed.same_params(method))
                .cloned()
                .ok_or_else(|| self.not_listed(name, &format!("method {method}")));
        }
        let found = self.closed(name, method.generic_args())?;
        let mut found = found.into_iter().filter(|m| m.same_params(method));
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(self.not_listed(name, &format!("method {method}"))),
            (Some(_), Some(_)) => Err(ParseError::new(
                1,
                format!(
                    "with these type arguments there are several methods {method}, which no server \
                     can tell apart: {}",
                    list(self.overloads(name))
                ),
            )),
        }
    }

    /// The listed methods of this name with as many type parameters, with these arguments for them.
    fn closed(&self, name: &str, args: &[Type]) -> Result<Vec<Method>, ParseError> {
        let overloads = self.overloads(name).iter();
        let generic = overloads.filter(|m| m.generic_arity() == args.len());
        let (closed, refused): (Vec<_>, Vec<_>) = generic
            .map(|method| method.instantiate(args))
            .partition(Result::is_ok);
        match refused.into_iter().find_map(Result::err) {
            Some(error) if closed.is_empty() => Err(ParseError::new(1, error.to_string())),
            _ => Ok(closed.into_iter().filter_map(Result::ok).collect()),
        }
    }

    fn method_by_word(&self, name: &str, args: &[TypeSyntax]) -> Result<Method, ParseError> {
        if !args.is_empty() && !self.is_open() {
            return self.method_by_closed_word(name, args);
        }
        match self.overloads(name) {
            [only] => Ok(only.clone()),
            [] if self.is_open() => {
                let shown = match &args.iter().map(|arg| &*arg.text).collect::<Vec<_>>()[..] {
                    [] => name.to_owned(),
                    args => format!("{name}<{}>", args.join(", ")),
                };
                Err(ParseError::new(
                    shown.chars().count() + 1,
                    format!("expected the types of the parameters: {shown}(...)"),
                ))
            }
            [] => Err(self.not_listed(name, &format!("method {name}"))),
            several => Err(ParseError::new(
                1,
                format!(
                    "{name} has {} overloads, write one of: {}",
                    several.len(),
                    list(several)
                ),
            )),
        }
    }

    /// `Echo<int>`
    fn method_by_closed_word(&self, name: &str, args: &[TypeSyntax]) -> Result<Method, ParseError> {
        let scope = Scope::of(self.types());
        let args = args
            .iter()
            .map(|arg| scope.resolve(arg))
            .collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<_> = args.iter().map(ToString::to_string).collect();
        let shown = format!("{name}<{}>", texts.join(", "));
        match &self.closed(name, &args)?[..] {
            [only] => Ok(only.clone()),
            [] => Err(self.not_listed(name, &format!("method {shown}"))),
            several => Err(ParseError::new(
                1,
                format!(
                    "{shown} has {} overloads, write one of: {}",
                    several.len(),
                    list(several)
                ),
            )),
        }
    }

    fn not_listed(&self, name: &str, what: &str) -> ParseError {
        let message = match self.overloads(name) {
            [] => format!("{} has no {what}", self.name()),
            several => format!(
                "{} has no {what}, but it has {}",
                self.name(),
                list(several)
            ),
        };
        ParseError::new(1, message)
    }

    /// The accessors of a property line: `string Name { get; set; }` gives `get_Name` and
    /// `set_Name`.
    ///
    /// # Errors
    /// As for [`Contract::method`].
    pub fn property(&self, line: &str) -> Result<Vec<Method>, ParseError> {
        let Line::Property { ty, name, get, set } = parse::parse_line(line)? else {
            return Err(ParseError::new(
                1,
                "expected a property such as \"string Name { get; set; }\"",
            ));
        };
        let methods = Method::from_property(&self.0.head, &ty, &name, get, set)?;
        if self.is_open() {
            return Ok(methods);
        }
        methods
            .iter()
            .map(|method| {
                self.overloads(method.name())
                    .iter()
                    .find(|listed| listed.same_params(method))
                    .cloned()
                    .ok_or_else(|| self.not_listed(method.name(), &format!("method {method}")))
            })
            .collect()
    }

    /// The event that a line means: `event Action<int> Progress`; the word `event` may be left out.
    /// With a contract that lists its events, the name alone is enough.
    ///
    /// # Errors
    /// As for [`Contract::method`].
    pub fn event(&self, line: &str) -> Result<Event, ParseError> {
        let name = match parse::parse_line(line)? {
            Line::Word { name, .. } if self.is_open() => {
                return Err(ParseError::new(
                    1,
                    format!("expected the type of the event too: Action<...> {name}"),
                ));
            }
            Line::Word { name, args } if args.is_empty() => name,
            _ => {
                let event = event_of_line(&self.0.head, line)?;
                if self.is_open() {
                    return Ok(event);
                }
                if let Some(listed) = self.event_named(event.name())
                    && listed.handler() != event.handler()
                {
                    return Err(ParseError::new(
                        1,
                        format!("{} lists it as {listed}", self.name()),
                    ));
                }
                event.name().to_owned()
            }
        };
        self.event_named(&name)
            .cloned()
            .ok_or_else(|| ParseError::new(1, format!("{} has no event {name}", self.name())))
    }

    /// The listed method with this id, also an event's accessors. A hash look-up that allocates
    /// nothing.
    pub fn by_id(&self, method_id: i64) -> Option<&Method> {
        self.0.by_id.get(&method_id)
    }

    /// All listed methods with exactly this name. A hash look-up that allocates nothing.
    pub fn overloads(&self, name: &str) -> &[Method] {
        self.0
            .by_name
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The listed event with exactly this name. A hash look-up that allocates nothing.
    pub fn event_named(&self, name: &str) -> Option<&Event> {
        let index = *self.0.events_by_name.get(name)?;
        self.0.events.get(index)
    }

    /// Finds a listed method or an event's accessor as a server does when a request has no method id:
    /// by name, case ignored as .NET does, and by exactly these parameter types; a generic method is
    /// instantiated with the type arguments, which are ignored for other methods.
    pub fn by_signature(&self, name: &str, params: &[Type], generics: &[Type]) -> Option<Method> {
        let all = self.0.methods.iter().chain(self.event_accessors());
        select(all, name, params, generics).map(|(_, method)| method)
    }

    /// Reads a type's name as it travels: `System.Int32, System.Private.CoreLib`, with or without
    /// assembly and version. Assemblies are not compared.
    ///
    /// # Errors
    /// When the text is no type name.
    pub fn type_from_wire(&self, name: &str) -> Result<Type, NameError> {
        names::read_wire_name(name, self.types())
    }

    /// The type that a C# text means here: `List<Demo.Person>`, `int?`.
    ///
    /// # Errors
    /// With the column when the text is not understood.
    pub fn type_from_text(&self, text: &str) -> Result<Type, ParseError> {
        let syntax = parse::parse_type(text)?;
        Scope::of(self.types()).resolve(&syntax)
    }
}

impl Inner {
    fn add_method(&mut self, method: Method) -> Result<(), String> {
        let overloads = self.by_name.entry(method.name().into()).or_default();
        if overloads.iter().any(|other| other.same_params(&method)) {
            return Err(format!("{} is listed twice", method.name()));
        }
        if method.method_id() != 0
            && let Some(other) = self.by_id.insert(method.method_id(), method.clone())
        {
            return Err(format!("it has the same id as {other}"));
        }
        overloads.push(method.clone());
        self.methods.push(method);
        Ok(())
    }

    fn add_event(&mut self, event: Event) -> Result<(), String> {
        let index = self.events.len();
        if self
            .events_by_name
            .insert(event.name().into(), index)
            .is_some()
        {
            return Err(format!("{} is listed twice", event.name()));
        }
        for accessor in event.accessors() {
            if accessor.method_id() != 0 {
                let listed = self.by_id.entry(accessor.method_id());
                listed.or_insert_with(|| accessor.clone());
            }
            self.accessors.push(accessor);
        }
        self.events.push(event);
        Ok(())
    }
}

fn list(methods: &[Method]) -> String {
    let lines: Vec<String> = methods.iter().map(Method::to_string).collect();
    lines.join("; ")
}

fn methods_of_line(head: &Arc<Head>, line: &str) -> Result<Vec<Method>, ParseError> {
    match parse::parse_line(line)? {
        Line::Method(syntax) => {
            let method = Method::from_syntax(head, &syntax)?;
            if method.is_generic() && !method.is_open() {
                return Err(ParseError::new(
                    1,
                    format!(
                        "{method} has type arguments: a contract lists the open method, with type \
                             parameters such as T"
                    ),
                ));
            }
            Ok(vec![method])
        }
        Line::Property { ty, name, get, set } => Method::from_property(head, &ty, &name, get, set),
        Line::Event { name, .. } => Err(ParseError::new(
            1,
            format!("{name} is an event: list it among the events"),
        )),
        Line::Plain { .. } | Line::Word { .. } => Err(ParseError::new(
            1,
            "expected a method such as \"int Add(int a, int b)\" or a property such as \
             \"string Name { get; set; }\"",
        )),
    }
}

fn event_of_line(head: &Arc<Head>, line: &str) -> Result<Event, ParseError> {
    match parse::parse_line(line)? {
        Line::Event { ty, name } | Line::Plain { ty, name, .. } => {
            Event::from_syntax(head, &ty, &name)
        }
        _ => Err(ParseError::new(
            1,
            "expected an event such as \"event Action<int> Progress\"",
        )),
    }
}

/// The stable name of the contract.
fn contract_name(text: &str, types: &Types) -> Result<String, String> {
    let syntax = parse::parse_type(text).map_err(|e| e.to_string())?;
    let ty = contract_type(&syntax, types).map_err(|e| e.to_string())?;
    ty.stable_name().map_err(|e| e.to_string())
}

fn contract_type(syntax: &TypeSyntax, types: &Types) -> Result<Type, ParseError> {
    let TypeNode::Name { segments, .. } = &syntax.node else {
        return Err(ParseError::new(
            syntax.column,
            format!("{} is not the name of a contract", syntax.text),
        ));
    };
    let scope = Scope::of(types);
    let args = segments
        .iter()
        .flat_map(|segment| &segment.args)
        .map(|arg| scope.resolve(arg))
        .collect::<Result<_, _>>()?;
    Ok(Type::Named(Arc::new(Named {
        name: definition_name(segments).into(),
        args,
    })))
}
