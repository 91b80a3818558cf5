//! Contracts: what the package builds from annotated classes or reads from a file.

use pyo3::prelude::*;
use witrpc::contract::{Contract as CoreContract, Event, Method, Type};

use crate::errors;

/// A method or event, as the package sees it.
type Described = (String, String, Vec<(Option<String>, String)>, String);

/// A contract that was read.
#[pyclass(frozen, module = "witrpc._witrpc")]
pub(crate) struct Contract(pub(crate) CoreContract);

fn params(params: &[witrpc::contract::Param]) -> Vec<(Option<String>, String)> {
    let text = |ty: &Type| ty.to_string();
    params
        .iter()
        .map(|p| (p.name().map(str::to_owned), text(p.ty())))
        .collect()
}

fn method(method: &Method) -> Described {
    (
        method.name().to_owned(),
        method.to_string(),
        params(method.params()),
        method.returns().to_string(),
    )
}

fn event(event: &Event) -> Described {
    (
        event.name().to_owned(),
        event.to_string(),
        params(event.args()),
        String::new(),
    )
}

#[pymethods]
impl Contract {
    /// Reads the text of a contract file.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let read = CoreContract::from_json(text);
        read.map(Self).map_err(|e| errors::invalid(e.to_string()))
    }

    /// A contract of which only the name is known.
    #[staticmethod]
    fn open(name: &str) -> PyResult<Self> {
        CoreContract::open(name)
            .map(Self)
            .map_err(|e| errors::invalid(format!("contract \"{name}\": {e}")))
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.0.is_open()
    }

    /// Name, line, parameters (name and type) and return type of each method.
    fn methods(&self) -> Vec<Described> {
        self.0.methods().iter().map(method).collect()
    }

    /// Name, line and arguments of each event.
    fn events(&self) -> Vec<Described> {
        self.0.events().iter().map(event).collect()
    }

    /// A method by its line.
    fn method(&self, line: &str) -> PyResult<Described> {
        let found = self.0.method(line);
        found
            .map(|found| method(&found))
            .map_err(|e| errors::invalid(format!("method \"{line}\": {e}")))
    }
}
