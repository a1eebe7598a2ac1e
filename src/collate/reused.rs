//! [`reuse_batches`]: batches of items in memory that is reused.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use crate::Result;

/// Maximum number of batches to keep for reuse.
const FREE: usize = 16;

/// Creates a collate for an [`ItemLoader`](crate::ItemLoader) from a function that fills an existing batch: one that
/// was dropped, with its old contents, or else the default. Without reuse, a dropped batch of more than a few hundred
/// kilobytes is returned to the operating system, and getting memory back, page by page, costs more than filling it.
///
/// # Example
/// ```
/// use sluicegate::{ItemLoader, reuse_batches};
///
/// let images: Vec<[u8; 784]> = vec![[7; 784]; 100];
/// let collate = reuse_batches(|items: Vec<&[u8; 784]>, into: &mut Vec<u8>| {
///     into.clear();
///     items.iter().for_each(|image| into.extend_from_slice(*image));
///     Ok(())
/// });
/// let loader = ItemLoader::builder(&images[..], collate).batch_size(32).build()?;
/// for batch in loader.epoch(0)? {
///     assert!(batch?.iter().all(|&byte| byte == 7)); // a `Vec<u8>`, which goes back where it came from
/// }
/// # Ok::<(), sluicegate::Error>(())
/// ```
pub fn reuse_batches<I, B: Default + Send>(
    collate: impl Fn(Vec<I>, &mut B) -> Result<()> + Send + Sync,
) -> impl Fn(Vec<I>) -> Result<Reused<B>> + Send + Sync {
    let free: Arc<Mutex<Vec<B>>> = Arc::default();
    move |items| {
        let used = free.try_lock().ok().and_then(|mut free| free.pop());
        let mut batch = Reused { batch: Some(used.unwrap_or_default()), free: Arc::clone(&free) };
        collate(items, &mut batch)?;
        Ok(batch)
    }
}

/// A batch whose memory is reused when it is dropped: the result of [`reuse_batches`]. It stays valid as long as it is
/// kept.
#[derive(Debug)]
pub struct Reused<B> {
    /// None only while this is being dropped.
    batch: Option<B>,
    free: Arc<Mutex<Vec<B>>>,
}

impl<B> Deref for Reused<B> {
    type Target = B;

    fn deref(&self) -> &B {
        self.batch.as_ref().expect("only a drop takes it")
    }
}

impl<B> DerefMut for Reused<B> {
    fn deref_mut(&mut self) -> &mut B {
        self.batch.as_mut().expect("only a drop takes it")
    }
}

impl<B> Drop for Reused<B> {
    fn drop(&mut self) {
        // Never waits: if another thread holds the lock, or a fork lost its holder, the batch is simply not reused.
        if let (Some(batch), Ok(mut free)) = (self.batch.take(), self.free.try_lock())
            && free.len() < FREE
        {
            free.push(batch);
        }
    }
}
