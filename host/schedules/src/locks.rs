//! Locks and cells whose every use is a point at which another task may go on.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Another task may go on here.
pub(crate) fn point() {
    // What a failed schedule leaves behind is dropped without a scheduler.
    if !std::thread::panicking() {
        shuttle::thread::yield_now();
    }
}

/// Something of a library that is done at once, behind a point.
#[derive(Debug, Default)]
pub struct Pointed<T>(pub(crate) T);

impl<T> Deref for Pointed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        point();
        &self.0
    }
}

impl<T> DerefMut for Pointed<T> {
    fn deref_mut(&mut self) -> &mut T {
        point();
        &mut self.0
    }
}

/// `parking_lot::Mutex`: who holds it may be interrupted, and others wait then.
#[derive(Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The right to what is locked.
pub type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

/// `arc_swap::ArcSwap`, with a point before each use.
pub type ArcSwap<T> = Pointed<real_arc_swap::ArcSwap<T>>;

impl<T> Pointed<real_arc_swap::ArcSwap<T>> {
    pub fn from_pointee(value: T) -> Self {
        Self(real_arc_swap::ArcSwap::from_pointee(value))
    }

    pub fn new(value: Arc<T>) -> Self {
        Self(real_arc_swap::ArcSwap::new(value))
    }
}
