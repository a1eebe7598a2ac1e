//! `file_images`: images in files, transformed as they are read; some are left to Pillow, and `exp` to torch.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes};
use sluicegate::internal::{FileImages, FileMode, OtherImages, ask_torch};
use sluicegate::{DType, Image};

use super::transforms::transforms_of;
use crate::dataset::Dataset;
use crate::error::to_python;
use crate::in_memory::in_memory;
use crate::memory::ForeignArray;

/// The error for a thread that calls Python after the interpreter has ended.
const ENDED: &str = "the interpreter has ended";

/// A Python object with methods `size(path)`, which returns (height, width), and `decode(path)`, which returns (height,
/// width, bytes of the pixels); and the number of channels of an image.
struct InPython(Py<PyAny>, usize);

impl InPython {
    fn ask<T>(&self, ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T, String> {
        let asked = Python::try_attach(|py| ask(self.0.bind(py)).map_err(|error| error.to_string()));
        asked.unwrap_or_else(|| Err(ENDED.into()))
    }
}

impl OtherImages for InPython {
    fn size(&self, path: &Path) -> Result<[usize; 2], String> {
        let path = path.as_os_str().as_bytes();
        self.ask(|object| object.call_method1("size", (PyBytes::new(object.py(), path),))?.extract())
    }

    fn decode(&self, path: &Path) -> Result<Image, String> {
        let path = path.as_os_str().as_bytes();
        self.ask(|object| {
            let decoded = object.call_method1("decode", (PyBytes::new(object.py(), path),))?;
            let (height, width, pixels): (usize, usize, Vec<u8>) = decoded.extract()?;
            if height.checked_mul(width).and_then(|size| size.checked_mul(self.1)) != Some(pixels.len()) {
                return Err(PyValueError::new_err("the number of pixels does not match the size of the image"));
            }
            Ok(Image::new(width, height, self.1, DType::UInt8, pixels))
        })
    }
}

/// Returns `torch.exp` of a tensor of one float32.
fn torch_exp(power: f32) -> Result<f32, String> {
    let ask = |py: Python<'_>| -> PyResult<f32> {
        let torch = py.import("torch")?;
        let kinds = [("dtype", torch.getattr("float32")?), ("device", "cpu".into_pyobject(py)?.into_any())];
        let tensor = torch.call_method("tensor", ((power,),), Some(&kinds.into_py_dict(py)?))?;
        torch.call_method1("exp", (tensor,))?.call_method0("item")?.extract()
    };
    let asked = Python::try_attach(|py| ask(py).map_err(|error| error.to_string()));
    asked.unwrap_or_else(|| Err(ENDED.into()))
}

/// Makes random transforms that are created later compute `exp` as torch does.
pub(crate) fn ask_torch_for_exp() {
    ask_torch(torch_exp);
}

/// Returns the images in the files at `paths` (separated by zeros), transformed by `transforms` (a list in JSON), in a
/// field of their own, followed by the other `arrays`, if any. `mode` is "converted" for files that become images in
/// color, or Pillow's mode of the files: "RGB", "L", or "P", whose values are indices. `others` reads what the core
/// leaves to Pillow. Relative paths start from `folder`. Raises ValueError if images don't always get the same form.
#[pyfunction]
pub(crate) fn file_images(
    py: Python<'_>,
    paths: &[u8],
    arrays: Vec<ForeignArray>,
    transforms: &str,
    others: Py<PyAny>,
    mode: &str,
    folder: Option<PathBuf>,
) -> PyResult<Dataset> {
    ask_torch_for_exp();
    let transforms = transforms_of(transforms)?;
    let made = mode.parse::<FileMode>().and_then(|mode| {
        let other_fields = if arrays.is_empty() { None } else { Some(in_memory(arrays)?) };
        FileImages::new("0", paths, mode, transforms, other_fields, Arc::new(InPython(others, mode.channels())))
    });
    made.map(|images| Dataset(Arc::new(images.relative_to(folder)))).map_err(|error| to_python(py, error))
}
