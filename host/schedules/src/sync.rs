//! `tokio::sync`: tokio's own, each behind a point.

use std::sync::Arc;

use real_tokio::sync;
use real_tokio::sync::{AcquireError, TryAcquireError};

use crate::locks::{Pointed, point};

pub use real_tokio::sync::{Mutex, MutexGuard, OwnedSemaphorePermit, SemaphorePermit, oneshot};

pub mod futures {
    pub use real_tokio::sync::futures::Notified;
}

/// `Notify`, with a point before each use.
pub type Notify = Pointed<sync::Notify>;

impl Pointed<sync::Notify> {
    pub fn new() -> Self {
        Self(sync::Notify::new())
    }
}

/// `Semaphore`, with a point before each use.
#[derive(Debug)]
pub struct Semaphore(Arc<sync::Semaphore>);

impl Semaphore {
    pub const MAX_PERMITS: usize = sync::Semaphore::MAX_PERMITS;

    pub fn new(permits: usize) -> Self {
        Self(Arc::new(sync::Semaphore::new(permits)))
    }

    pub fn available_permits(&self) -> usize {
        point();
        self.0.available_permits()
    }

    pub async fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        point();
        self.0.acquire().await
    }

    pub async fn acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        point();
        self.0.clone().acquire_owned().await
    }

    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        point();
        self.0.clone().try_acquire_owned()
    }
}

pub mod watch {
    use real_tokio::sync::watch;

    use crate::locks::{Pointed, point};

    pub type Sender<T> = Pointed<watch::Sender<T>>;
    pub type Receiver<T> = Pointed<watch::Receiver<T>>;

    pub fn channel<T>(first: T) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = watch::channel(first);
        (Pointed(sender), Pointed(receiver))
    }

    impl<T> Pointed<watch::Sender<T>> {
        pub fn subscribe(&self) -> Receiver<T> {
            point();
            Pointed(self.0.subscribe())
        }
    }
}

pub mod broadcast {
    use real_tokio::sync::broadcast;

    use crate::locks::{Pointed, point};

    pub use real_tokio::sync::broadcast::error;

    pub type Sender<T> = Pointed<broadcast::Sender<T>>;
    pub type Receiver<T> = Pointed<broadcast::Receiver<T>>;

    pub fn channel<T: Clone>(most: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = broadcast::channel(most);
        (Pointed(sender), Pointed(receiver))
    }

    impl<T> Pointed<broadcast::Sender<T>> {
        pub fn subscribe(&self) -> Receiver<T> {
            point();
            Pointed(self.0.subscribe())
        }
    }
}

pub mod mpsc {
    use real_tokio::sync::mpsc;

    use crate::locks::{Pointed, point};

    pub type Sender<T> = Pointed<mpsc::Sender<T>>;
    pub type WeakSender<T> = Pointed<mpsc::WeakSender<T>>;
    pub type Receiver<T> = Pointed<mpsc::Receiver<T>>;

    pub fn channel<T>(most: usize) -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = mpsc::channel(most);
        (Pointed(sender), Pointed(receiver))
    }

    impl<T> Clone for Pointed<mpsc::Sender<T>> {
        fn clone(&self) -> Self {
            point();
            Self(self.0.clone())
        }
    }

    impl<T> Pointed<mpsc::Sender<T>> {
        pub fn downgrade(&self) -> WeakSender<T> {
            point();
            Pointed(self.0.downgrade())
        }
    }

    impl<T> Pointed<mpsc::WeakSender<T>> {
        pub fn upgrade(&self) -> Option<Sender<T>> {
            point();
            self.0.upgrade().map(Pointed)
        }
    }
}
