//! `Debug` for loaders and their batches, so that `unwrap_err` works and structs that contain one can derive `Debug`.

use std::fmt::{Debug, Formatter, Result};

use crate::{Batches, DataLoader, ItemLoader, StreamBatches};

impl Debug for DataLoader {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let mut fields = formatter.debug_struct("DataLoader");
        fields.field("ahead", &self.ahead).field("delivery", &self.delivery).field("seed", &self.seed);
        fields.finish_non_exhaustive()
    }
}

impl<B> Debug for ItemLoader<'_, B> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let mut fields = formatter.debug_struct("ItemLoader");
        fields.field("ahead", &self.ahead).field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

impl<B> Debug for Batches<'_, B> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        formatter.debug_struct("Batches").field("left", &self.left).field("state", &self.state).finish_non_exhaustive()
    }
}

impl Debug for StreamBatches {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let mut fields = formatter.debug_struct("StreamBatches");
        fields.field("batch_size", &self.batch_size).field("state", &self.state()).finish_non_exhaustive()
    }
}
