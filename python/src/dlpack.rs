//! A tensor as described by DLPack (<https://dmlc.github.io/dlpack>) since 0.8, which every supported torch reads.

use std::ffi::c_void;

use sluicegate::DType;

#[repr(C)]
pub(super) struct DLDevice {
    pub(super) device_type: i32,
    pub(super) device_id: i32,
}

pub(super) const CPU: DLDevice = DLDevice { device_type: 1, device_id: 0 };

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DLDataType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

#[repr(C)]
pub(super) struct DLTensor {
    pub(super) data: *mut c_void,
    pub(super) device: DLDevice,
    pub(super) ndim: i32,
    pub(super) dtype: DLDataType,
    pub(super) shape: *mut i64,
    pub(super) strides: *mut i64,
    pub(super) byte_offset: u64,
}

#[repr(C)]
pub(super) struct DLManagedTensor {
    pub(super) tensor: DLTensor,
    pub(super) manager: *mut c_void,
    /// A function that is called with this struct.
    pub(super) deleter: *const c_void,
}

/// DLPack's `DLPackExchangeAPI`.
#[repr(C)]
pub(super) struct ExchangeApi {
    pub(super) major: u32,
    _minor: u32,
    pub(super) previous: *const ExchangeApi,
    _allocate: *const c_void,
    _export: *const c_void,
    _import: *const c_void,
    /// A function that takes a tensor, and where to write its description.
    pub(super) show: *const c_void,
}

/// True if DLPack, as all supported torch versions read it, has no code for `dtype`: such a tensor is passed as bytes,
/// and then viewed as `dtype`.
pub(super) fn travels_as_bytes(dtype: DType) -> bool {
    dlpack_type(dtype).code == 1 && !matches!(dtype, DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64)
}

/// Returns DLPack's code for `dtype`, or a code for bytes if it [`travels_as_bytes`].
pub(super) fn dlpack_type(dtype: DType) -> DLDataType {
    let code = match dtype {
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => 0,
        DType::Float16 | DType::Float32 | DType::Float64 => 2,
        DType::BFloat16 => 4,
        DType::Complex32 | DType::Complex64 | DType::Complex128 => 5,
        DType::Bool => 6,
        _ => 1,
    };
    DLDataType { code, bits: (dtype.bytes() * 8) as u8, lanes: 1 }
}
