//! User code that panics, turned into a fault of the call that it ran for.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::handler::{Fault, HandlerFuture};

/// A handler whose panic is a fault of its call and of nothing else.
pub(super) enum Caught<F, T> {
    Begin(Option<F>),
    Running(HandlerFuture<T>),
}

impl<F: FnOnce() -> HandlerFuture<T> + Unpin, T> Caught<F, T> {
    pub(super) fn new(begin: F) -> Self {
        Self::Begin(Some(begin))
    }
}

impl<F: FnOnce() -> HandlerFuture<T> + Unpin, T> Future for Caught<F, T> {
    type Output = Result<T, Fault>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let step = AssertUnwindSafe(|| {
            if let Self::Begin(begin) = &mut *self
                && let Some(begin) = begin.take()
            {
                *self = Self::Running(begin());
            }
            match &mut *self {
                Self::Running(future) => future.as_mut().poll(cx),
                Self::Begin(_) => Poll::Pending,
            }
        });
        catch_unwind(step).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no text".to_owned());
            Poll::Ready(Err(Fault::new(format!("The handler panicked: {text}"))))
        })
    }
}
