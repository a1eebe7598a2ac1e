//! [`name_of`]: what a sampler is called that says nothing of itself.

/// The name of a type without the modules that it and its parameters lie in: those move more often than a type is
/// renamed, and change no order.
pub(super) fn name_of<T: ?Sized>() -> String {
    let parts = std::any::type_name::<T>().split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_');
    parts.filter(|part| !part.ends_with(':')).collect()
}
