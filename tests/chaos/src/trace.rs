//! The trace of a serving process: what it executed, written by itself, never touched by a client.

use std::collections::HashMap;
use std::path::Path;

use uuid::Uuid;

/// Executions in the order in which they began.
#[derive(Debug, Default)]
pub struct Trace {
    executions: Vec<(String, Uuid)>,
    by_id: HashMap<Uuid, usize>,
}

impl Trace {
    /// Reads a file with a line `exec METHOD INVOCATIONID` for each execution.
    pub fn read(path: &Path) -> Self {
        Self::parse(&std::fs::read_to_string(path).unwrap())
    }

    /// Reads the text of such a file. A last line that is not complete belongs to a process that was
    /// killed while it wrote: it had not begun the call.
    pub fn parse(text: &str) -> Self {
        let mut trace = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let ["exec", method, id] = words[..] else {
                panic!("not a line of a trace: {line:?}");
            };
            let id = id.parse().unwrap();
            trace.executions.push((method.to_owned(), id));
            *trace.by_id.entry(id).or_default() += 1;
        }
        trace
    }

    /// What several processes have executed.
    pub fn of_all(traces: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for trace in traces {
            for (_, id) in &trace.executions {
                *all.by_id.entry(*id).or_default() += 1;
            }
            all.executions.extend(trace.executions);
        }
        all
    }

    /// How often the call with this id was executed.
    pub fn of(&self, id: Uuid) -> usize {
        self.by_id.get(&id).copied().unwrap_or(0)
    }

    /// How often this method was executed.
    pub fn of_method(&self, method: &str) -> usize {
        self.executions.iter().filter(|(m, _)| m == method).count()
    }

    /// All executions.
    pub fn len(&self) -> usize {
        self.executions.len()
    }

    /// True if nothing was executed.
    pub fn is_empty(&self) -> bool {
        self.executions.is_empty()
    }

    /// Calls that were executed more than once.
    pub fn repeated(&self) -> Vec<(Uuid, usize)> {
        let all = self.by_id.iter().map(|(id, n)| (*id, *n));
        all.filter(|(_, n)| *n > 1).collect()
    }
}
