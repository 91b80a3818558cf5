//! Handles: what a caller holds instead of an address.
//!
//! A handle is a slot number, a generation and a kind, packed into a pointer that points nowhere.
//! A freed handle, one of another kind and one that never was are all told apart from a live one,
//! so that misuse gives a status. Nothing is ever dereferenced.

use std::any::Any;
use std::sync::Arc;

use parking_lot::RwLock;
use slab::Slab;

use crate::status::witrpc_status;

#[cfg(target_pointer_width = "64")]
const INDEX_BITS: u32 = 22;
#[cfg(target_pointer_width = "64")]
const KIND_BITS: u32 = 5;
#[cfg(not(target_pointer_width = "64"))]
const INDEX_BITS: u32 = 13;
#[cfg(not(target_pointer_width = "64"))]
const KIND_BITS: u32 = 5;

const MAX_INDEX: usize = (1 << INDEX_BITS) - 1;
const MAX_GENERATION: usize = usize::MAX >> (INDEX_BITS + KIND_BITS);

/// An object that callers hold by handle. `Opaque` is the type that the header shows.
pub(crate) trait Object: Any + Send + Sync + Sized {
    /// The opaque type in the header.
    type Opaque;
    /// Tells handles of one kind from those of another; from 1.
    const KIND: usize;
}

struct Entry {
    object: Arc<dyn Any + Send + Sync>,
    generation: usize,
    kind: usize,
    poisoned: bool,
}

struct Table {
    entries: Slab<Entry>,
    /// Where the generations of new entries begin; grows with every free.
    generation: usize,
}

static TABLE: RwLock<Table> = RwLock::new(Table {
    entries: Slab::new(),
    generation: 1,
});

/// Makes a handle. NULL if there are too many.
pub(crate) fn insert<T: Object>(object: T) -> *mut T::Opaque {
    insert_shared(Arc::new(object))
}

/// Makes one more handle of an object.
pub(crate) fn insert_shared<T: Object>(object: Arc<T>) -> *mut T::Opaque {
    let mut table = TABLE.write();
    if table.entries.len() > MAX_INDEX {
        return std::ptr::null_mut();
    }
    let generation = table.generation;
    let index = table.entries.insert(Entry {
        object,
        generation,
        kind: T::KIND,
        poisoned: false,
    });
    drop(table);
    let value = (generation << (INDEX_BITS + KIND_BITS)) | (T::KIND << INDEX_BITS) | index;
    std::ptr::without_provenance_mut(value)
}

fn unpack<T: Object>(handle: *const T::Opaque) -> Option<(usize, usize)> {
    let value = handle.addr();
    let kind = (value >> INDEX_BITS) & ((1 << KIND_BITS) - 1);
    let (index, generation) = (value & MAX_INDEX, value >> (INDEX_BITS + KIND_BITS));
    (kind == T::KIND && generation != 0).then_some((index, generation))
}

/// The object behind a handle.
pub(crate) fn get<T: Object>(handle: *const T::Opaque) -> Result<Arc<T>, witrpc_status> {
    let (index, generation) = unpack::<T>(handle).ok_or(witrpc_status::WITRPC_INVALID_HANDLE)?;
    let object = {
        let table = TABLE.read();
        let entry = table
            .entries
            .get(index)
            .filter(|e| e.generation == generation && e.kind == T::KIND)
            .ok_or(witrpc_status::WITRPC_INVALID_HANDLE)?;
        if entry.poisoned {
            return Err(witrpc_status::WITRPC_INTERNAL);
        }
        entry.object.clone()
    };
    object
        .downcast()
        .map_err(|_| witrpc_status::WITRPC_INVALID_HANDLE)
}

/// Ends a handle. Returns the object, whose last reference it may be.
pub(crate) fn remove<T: Object>(handle: *const T::Opaque) -> Option<Arc<T>> {
    let (index, generation) = unpack::<T>(handle)?;
    let mut table = TABLE.write();
    let entry = table.entries.get(index)?;
    if entry.generation != generation || entry.kind != T::KIND {
        return None;
    }
    let entry = table.entries.remove(index);
    // The slot's next handle must differ from this one: generations only grow, until they wrap
    // after the pointer's width is used up.
    table.generation = if table.generation >= MAX_GENERATION {
        1
    } else {
        table.generation + 1
    };
    drop(table);
    entry.object.downcast().ok()
}

/// After a panic nothing is known of an object: its handle gives [`witrpc_status::WITRPC_INTERNAL`]
/// from now on.
pub(crate) fn poison<T: Object>(handle: *const T::Opaque) {
    if let Some((index, generation)) = unpack::<T>(handle)
        && let Some(entry) = TABLE.write().entries.get_mut(index)
        && entry.generation == generation
    {
        entry.poisoned = true;
    }
}

/// Keeps others out while the process forks.
pub(crate) fn lock_for_fork() {
    std::mem::forget(TABLE.write());
}

/// Lets others in again. A child forgets its parent's objects: their handles are refused from now on,
/// and what is behind them is neither used nor ended.
///
/// # Safety
/// [`lock_for_fork`] must have been called, on this thread.
pub(crate) unsafe fn unlock_after_fork(is_child: bool) {
    // SAFETY: the table is locked, so nobody else looks at it.
    unsafe {
        if is_child {
            let table = &mut *TABLE.data_ptr();
            std::mem::forget(std::mem::take(&mut table.entries));
            table.generation += 1;
        }
        TABLE.force_unlock_write();
    }
}

/// All live objects of a kind.
pub(crate) fn all<T: Object>() -> Vec<Arc<T>> {
    let table = TABLE.read();
    let of_kind = table
        .entries
        .iter()
        .filter(|(_, entry)| entry.kind == T::KIND);
    of_kind
        .filter_map(|(_, entry)| entry.object.clone().downcast().ok())
        .collect()
}
