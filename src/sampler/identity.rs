//! [`name_of`]: the name of a sampler that does not define its identity.

/// Returns the name of a type without the modules of the type and its parameters: modules move more often than types
/// are renamed, and do not change an order.
pub(super) fn name_of<T: ?Sized>() -> String {
    let parts = std::any::type_name::<T>().split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_');
    parts.filter(|part| !part.ends_with(':')).collect()
}
