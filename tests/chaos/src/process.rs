//! What a process holds: memory, threads, descriptors. Read from `/proc`.

use std::fmt;
use std::path::{Path, PathBuf};

/// What a process holds at some moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    /// Resident memory, in KiB.
    pub rss_kib: usize,
    /// Threads of libwitrpc. Those of the test harness and of a test's runtime come and go as
    /// they like, and are nobody's leak.
    pub threads: usize,
    /// Open descriptors.
    pub fds: usize,
}

impl Holdings {
    /// Of this process.
    pub fn here() -> Self {
        Self::read("self".into())
    }

    /// Of another process.
    pub fn of(pid: u32) -> Self {
        Self::read(pid.to_string())
    }

    fn read(pid: String) -> Self {
        let root = PathBuf::from("/proc").join(pid);
        let statm = std::fs::read_to_string(root.join("statm")).unwrap();
        let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
        let count = |what: &str| std::fs::read_dir(root.join(what)).unwrap().count();
        Self {
            rss_kib: pages * rustix::param::page_size() / 1024,
            threads: threads_of_ours(&root.join("task")),
            // One of them is the folder being read.
            fds: count("fd") - usize::from(root.ends_with("self")),
        }
    }
}

fn threads_of_ours(tasks: &Path) -> usize {
    let names = std::fs::read_dir(tasks).unwrap().filter_map(|task| {
        // One that has just ended has no name any more.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    });
    names.filter(|name| name.starts_with("witrpc")).count()
}

impl fmt::Debug for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rss_kib,
            threads,
            fds,
        } = self;
        write!(f, "{rss_kib} KiB, {threads} threads, {fds} descriptors")
    }
}
