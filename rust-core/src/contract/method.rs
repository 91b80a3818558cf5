//! Methods and events: a line of a contract after everything in it has been resolved.
//!
//! Owns ids, signatures and the instantiation of generic methods.

use std::fmt;
use std::sync::Arc;

use super::declared::{TypeKind, Types};
use super::framework::{EVENT_ARGS, Shape};
use super::generic;
use super::id::stable_id;
use super::names::{NameError, TypeName};
use super::parse;
use super::resolve::Scope;
use super::syntax::{
    GenericSyntax, MethodSyntax, ParamSyntax, ParseError, TypeNode, TypeSyntax, is_keyword,
};
use super::types::Type;

/// What all methods and events of a contract share.
#[derive(Debug)]
pub(super) struct Head {
    /// The stable name.
    pub(super) name: String,
    pub(super) id: i64,
    pub(super) types: Arc<Types>,
}

/// A parameter of a method, or an argument of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    name: Option<Arc<str>>,
    ty: Type,
}

impl Param {
    /// The name, when the line gave one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The declared type.
    pub fn ty(&self) -> &Type {
        &self.ty
    }
}

/// A method of a contract. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Method(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    head: Arc<Head>,
    name: Arc<str>,
    id: i64,
    params: Vec<Param>,
    returns: Type,
    generics: Vec<GenericSyntax>,
    generic_args: Vec<Type>,
    event_accessor: bool,
}

impl Method {
    pub(super) fn from_syntax(
        head: &Arc<Head>,
        syntax: &MethodSyntax,
    ) -> Result<Method, ParseError> {
        let (generics, closed) = generic::parameters(&head.types, syntax)?;
        let strict = Scope {
            types: &head.types,
            // The types of a closed line are closed already.
            generics: if closed.is_empty() { &generics } else { &[] },
            lenient: false,
        };
        let lenient = Scope {
            lenient: true,
            ..strict
        };
        let params = syntax
            .params
            .iter()
            .map(|param| resolve_param(&strict, param))
            .collect::<Result<_, _>>()?;
        let returns = match &syntax.returns {
            Some(ty) => lenient.resolve_return(ty)?,
            None => Type::Untyped,
        };
        let method = Self::new(head, &syntax.name, params, returns, generics, false);
        if !closed.is_empty() {
            return Ok(method.with_generic_args(closed));
        }
        let args = generic::arguments(&head.types, syntax)?;
        if args.is_empty() {
            return Ok(method);
        }
        let closed = method.instantiate(&args);
        closed.map_err(|e| ParseError::new(1, e.to_string()))
    }

    /// The accessors `get_Name` and `set_Name` of a property, as far as it has them.
    pub(super) fn from_property(
        head: &Arc<Head>,
        ty: &TypeSyntax,
        name: &str,
        get: bool,
        set: bool,
    ) -> Result<Vec<Method>, ParseError> {
        let strict = Scope::of(&head.types);
        let mut methods = Vec::new();
        if get {
            let scope = Scope {
                lenient: true,
                ..strict
            };
            // A property is not awaited, but a getter that returns a task is.
            let returns = scope.resolve_return(ty)?;
            let name = format!("get_{name}");
            methods.push(Self::new(
                head,
                &name,
                Vec::new(),
                returns,
                Vec::new(),
                false,
            ));
        }
        if set {
            let param = Param {
                name: Some("value".into()),
                ty: strict.resolve(ty)?,
            };
            let name = format!("set_{name}");
            methods.push(Self::new(
                head,
                &name,
                vec![param],
                Type::Void,
                Vec::new(),
                false,
            ));
        }
        Ok(methods)
    }

    fn new(
        head: &Arc<Head>,
        name: &str,
        params: Vec<Param>,
        returns: Type,
        generics: Vec<GenericSyntax>,
        event_accessor: bool,
    ) -> Method {
        let id = if generics.is_empty() {
            method_id(&head.name, name, &params).unwrap_or(0)
        } else {
            0
        };
        Method(Arc::new(Inner {
            head: head.clone(),
            name: name.into(),
            id,
            params,
            returns,
            generics,
            generic_args: Vec::new(),
            event_accessor,
        }))
    }

    /// The method's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The stable name of the contract.
    pub fn contract_name(&self) -> &str {
        &self.0.head.name
    }

    /// The id of the contract.
    pub fn contract_id(&self) -> i64 {
        self.0.head.id
    }

    /// The id of the method; 0 means that it is found by name and types only: a generic method, or
    /// one with a `ref` parameter of a generic type.
    pub fn method_id(&self) -> i64 {
        self.0.id
    }

    /// The parameters, in order.
    pub fn params(&self) -> &[Param] {
        &self.0.params
    }

    /// What a caller gets: the declared return type, for `Task<T>` its `T`, for `Task` nothing.
    ///
    /// `ValueTask` stays what it is: .NET servers do not await it but serialise the struct.
    pub fn returns(&self) -> &Type {
        &self.0.returns
    }

    /// The contract's declared types, which the codecs need.
    pub fn types(&self) -> &Types {
        &self.0.head.types
    }

    /// Whether it has type parameters, given or not.
    pub fn is_generic(&self) -> bool {
        !self.0.generics.is_empty()
    }

    /// How many type parameters it has.
    pub fn generic_arity(&self) -> usize {
        self.0.generics.len()
    }

    /// The names of its type parameters.
    pub fn type_parameters(&self) -> impl Iterator<Item = &str> {
        self.0.generics.iter().map(|generic| generic.name.as_str())
    }

    /// The type arguments; empty for a method that is not generic or not instantiated yet.
    pub fn generic_args(&self) -> &[Type] {
        &self.0.generic_args
    }

    /// Whether it has type parameters that still need arguments.
    pub fn is_open(&self) -> bool {
        self.0.generic_args.len() < self.0.generics.len()
    }

    /// Checks that no type argument is missing, without which it can't be called.
    ///
    /// # Errors
    /// When it is open.
    pub fn check_closed(&self) -> Result<(), NameError> {
        if !self.is_open() {
            return Ok(());
        }
        let names: Vec<_> = self.type_parameters().collect();
        Err(NameError::new(format!(
            "no type is given for {} of {}: write types instead of type parameters, as in int \
             Echo<int>(int value), or add \"where {} = int\"; a type that the contract does not \
             declare is written with its namespace",
            names.join(", "),
            self.name(),
            names[0],
        )))
    }

    /// Whether it is `add_X` or `remove_X` of an event. .NET servers answer these with an empty
    /// success; clients never call them.
    pub fn is_event_accessor(&self) -> bool {
        self.0.event_accessor
    }

    fn with_generic_args(self, generic_args: Vec<Type>) -> Method {
        let inner = &*self.0;
        Method(Arc::new(Inner {
            head: inner.head.clone(),
            name: inner.name.clone(),
            id: 0,
            params: inner.params.clone(),
            returns: inner.returns.clone(),
            generics: inner.generics.clone(),
            generic_args,
            event_accessor: false,
        }))
    }

    /// Gives a generic method its type arguments.
    ///
    /// # Errors
    /// When their number is wrong, one is no type of values (`void`), or a `T : struct` gets a class.
    pub fn instantiate(&self, args: &[Type]) -> Result<Method, NameError> {
        let inner = &*self.0;
        if args.len() != inner.generics.len() {
            return Err(NameError::new(format!(
                "{} has {} type parameters and got {} type arguments",
                inner.name,
                inner.generics.len(),
                args.len()
            )));
        }
        for (generic, arg) in inner.generics.iter().zip(args) {
            generic::check_argument(arg)?;
            let is_no_struct =
                arg.is_value_type() == Some(false) || matches!(arg, Type::Nullable(_));
            if generic.value_type && is_no_struct {
                return Err(NameError::new(format!(
                    "{} of {} is a value type, and {arg} is none",
                    generic.name, inner.name
                )));
            }
        }
        let closed = Method(Arc::new(Inner {
            head: inner.head.clone(),
            name: inner.name.clone(),
            id: 0,
            params: inner
                .params
                .iter()
                .map(|param| Param {
                    name: param.name.clone(),
                    ty: param.ty.substitute(args),
                })
                .collect(),
            returns: inner.returns.substitute(args),
            generics: inner.generics.clone(),
            generic_args: args.to_vec(),
            event_accessor: false,
        }));
        let all = closed.params().iter().map(Param::ty);
        all.chain([closed.returns()])
            .try_for_each(generic::check_closed)?;
        Ok(closed)
    }

    /// [`Method::instantiate`] with types as C# text: `["int", "List<Demo.Person>"]`.
    ///
    /// # Errors
    /// The same, and when a text is not a type.
    pub fn instantiate_named(&self, args: &[&str]) -> Result<Method, NameError> {
        let args = args
            .iter()
            .map(|text| {
                parse::parse_type(text)
                    .and_then(|syntax| Scope::of(&self.0.head.types).resolve(&syntax))
                    .map_err(|e| NameError::new(format!("type argument {text:?}: {e}")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.instantiate(&args)
    }

    /// The names of the parameter types as they travel.
    ///
    /// # Errors
    /// When the assembly of one is not known, or the method still needs type arguments.
    pub fn param_type_names(&self) -> Result<Vec<TypeName>, NameError> {
        self.params()
            .iter()
            .map(|param| param.ty.wire_name(self.types()))
            .collect()
    }

    /// The names of the type arguments as they travel.
    ///
    /// # Errors
    /// When the assembly of one is not known.
    pub fn generic_arg_names(&self) -> Result<Vec<TypeName>, NameError> {
        self.generic_args()
            .iter()
            .map(|arg| arg.wire_name(self.types()))
            .collect()
    }

    /// Whether a call of `other` is one of this method: the same contract, name and parameter types.
    /// An open generic method covers what it becomes with any type arguments.
    pub fn covers(&self, other: &Method) -> bool {
        if self.contract_id() != other.contract_id() || self.name() != other.name() {
            return false;
        }
        if self.is_open() && !other.is_open() {
            self.instantiate(other.generic_args())
                .is_ok_and(|closed| closed.same_params(other))
        } else {
            self.generic_args() == other.generic_args() && self.same_params(other)
        }
    }

    /// Whether both have the same parameter types, which makes them one method of a contract.
    pub(super) fn same_params(&self, other: &Method) -> bool {
        self.generic_arity() == other.generic_arity()
            && self
                .params()
                .iter()
                .map(Param::ty)
                .eq(other.params().iter().map(Param::ty))
    }
}

/// The C# line, without a semicolon.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        // Type parameters by name, and an unknown return type not at all.
        let named = |ty: &Type| NamedParameters {
            ty: ty.clone(),
            generics: &inner.generics,
        };
        if inner.returns != Type::Untyped {
            write!(f, "{} ", named(&inner.returns))?;
        }
        write_name(f, &inner.name)?;
        for (i, generic) in inner.generics.iter().enumerate() {
            f.write_str(if i == 0 { "<" } else { ", " })?;
            match inner.generic_args.get(i) {
                Some(arg) => write!(f, "{arg}")?,
                None => f.write_str(&generic.name)?,
            }
        }
        f.write_str(if inner.generics.is_empty() { "(" } else { ">(" })?;
        write_params(f, &inner.params, named)?;
        f.write_str(")")?;
        if self.is_open() {
            // Without a clause the name would be read as that of the type.
            let types = &inner.head.types;
            let names = self.type_parameters();
            for name in names.filter(|name| generic::is_type(types, name)) {
                write!(f, " where {name} : notnull")?;
            }
        }
        Ok(())
    }
}

struct NamedParameters<'a> {
    ty: Type,
    generics: &'a [GenericSyntax],
}

impl fmt::Display for NamedParameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.ty.is_open() {
            return write!(f, "{}", self.ty);
        }
        let names: Vec<Type> = self
            .generics
            .iter()
            .map(|generic| Type::Unresolved(generic.name.as_str().into()))
            .collect();
        write!(f, "{}", self.ty.substitute(&names))
    }
}

fn write_params<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    params: &[Param],
    named: impl Fn(&Type) -> T,
) -> fmt::Result {
    for (i, param) in params.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{}", named(&param.ty))?;
        if let Some(name) = &param.name {
            f.write_str(" ")?;
            write_name(f, name)?;
        }
    }
    Ok(())
}

fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if is_keyword(name) {
        f.write_str("@")?;
    }
    f.write_str(name)
}

fn method_id(contract: &str, name: &str, params: &[Param]) -> Result<i64, NameError> {
    let mut text = format!("{contract}#{name}(");
    for (i, param) in params.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        param.ty.write_stable_name(&mut text)?;
    }
    text.push(')');
    Ok(stable_id(&text))
}

pub(super) fn resolve_param(scope: &Scope<'_>, param: &ParamSyntax) -> Result<Param, ParseError> {
    let ty = scope.resolve(&param.ty)?;
    Ok(Param {
        name: param.name.as_deref().map(Arc::from),
        ty: if param.by_ref {
            Type::ByRef(Arc::new(ty))
        } else {
            ty
        },
    })
}

/// An event of a contract. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Event(Arc<EventInner>);

#[derive(Debug)]
struct EventInner {
    head: Arc<Head>,
    name: Arc<str>,
    handler: Type,
    args: Vec<Param>,
}

impl Event {
    pub(super) fn from_syntax(
        head: &Arc<Head>,
        ty: &TypeSyntax,
        name: &str,
    ) -> Result<Event, ParseError> {
        let scope = Scope {
            lenient: true,
            ..Scope::of(&head.types)
        };
        let handler = match &ty.node {
            // `event EventHandler? Changed` is how C# with nullable references writes it.
            TypeNode::Nullable(inner) => scope.resolve(inner)?,
            _ => scope.resolve(ty)?,
        };
        let args = delegate_args(&head.types, &handler).ok_or_else(|| {
            ParseError::new(
                ty.column,
                format!(
                    "{handler} is no known delegate: write Action<...> with the types of its \
                     arguments, EventHandler or EventHandler<...>, or declare the delegate"
                ),
            )
        })?;
        Ok(Event(Arc::new(EventInner {
            head: head.clone(),
            name: name.into(),
            handler,
            args,
        })))
    }

    /// The event's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The id of the contract.
    pub fn contract_id(&self) -> i64 {
        self.0.head.id
    }

    /// The delegate type.
    pub fn handler(&self) -> &Type {
        &self.0.handler
    }

    /// The arguments, in order.
    pub fn args(&self) -> &[Param] {
        &self.0.args
    }

    /// The contract's declared types, which the codecs need.
    pub fn types(&self) -> &Types {
        &self.0.head.types
    }

    /// The names of the argument types as they travel: the declared types, nullable ones without
    /// the nullable, since .NET writes the types of the values.
    ///
    /// # Errors
    /// When the assembly of one is not known.
    pub fn arg_type_names(&self) -> Result<Vec<TypeName>, NameError> {
        self.args()
            .iter()
            .map(|arg| match arg.ty() {
                Type::Nullable(inner) => inner.wire_name(self.types()),
                other => other.wire_name(self.types()),
            })
            .collect()
    }

    /// `add_X` and `remove_X`.
    pub(super) fn accessors(&self) -> [Method; 2] {
        ["add", "remove"].map(|prefix| {
            let param = Param {
                name: Some("value".into()),
                ty: self.0.handler.clone(),
            };
            Method::new(
                &self.0.head,
                &format!("{prefix}_{}", self.0.name),
                vec![param],
                Type::Void,
                Vec::new(),
                true,
            )
        })
    }
}

/// The C# line, without a semicolon.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} ", self.0.handler)?;
        write_name(f, &self.0.name)
    }
}

fn delegate_args(types: &Types, handler: &Type) -> Option<Vec<Param>> {
    let unnamed = |args: &[Type]| {
        args.iter()
            .map(|ty| Param {
                name: None,
                ty: ty.clone(),
            })
            .collect()
    };
    match handler {
        Type::Framework(framework, args) => match framework.shape() {
            Shape::Action => Some(unnamed(args)),
            Shape::Func => args.split_last().map(|(_, args)| unnamed(args)),
            Shape::EventHandler => {
                let named = |name: &str, ty: Type| Param {
                    name: Some(name.into()),
                    ty,
                };
                let args_type = args.first().cloned();
                Some(vec![
                    named("sender", Type::OBJECT),
                    named("e", args_type.unwrap_or_else(event_args)),
                ])
            }
            _ => None,
        },
        Type::Declared(declared) => match types.definition(declared)?.kind() {
            TypeKind::Delegate(params) => Some(
                params
                    .iter()
                    .map(|param| Param {
                        name: param.name.clone(),
                        ty: param.ty.substitute(declared.args()),
                    })
                    .collect(),
            ),
            _ => None,
        },
        _ => None,
    }
}

fn event_args() -> Type {
    Type::Framework(&EVENT_ARGS, [].into())
}
