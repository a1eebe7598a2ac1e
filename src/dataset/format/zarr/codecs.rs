//! [`Codecs`]: how a chunk's elements are encoded as bytes, and decoded.

use serde_json::Value;

use super::element::to_native;
use super::packing::Packing;
use crate::DType;

/// The codecs of a chunk, without sharding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Codecs {
    /// The axis order of the stored bytes: axis `order[0]` of the chunk is the outermost. `None` for C order.
    pub(super) order: Option<Vec<usize>>,
    pub(super) is_big: bool,
    /// In the order of encoding.
    pub(super) packings: Vec<Packing>,
}

/// The parsed codecs of a Zarr v3 array.
pub(super) enum ParsedCodecs {
    Chunks(Codecs),
    /// Chunks of shape `inner`, in shards.
    Shards {
        inner: Vec<usize>,
        codecs: Codecs,
        index: Codecs,
        index_is_first: bool,
    },
}

/// Reads the codecs of a Zarr v2 array (`compressor`, `filters`, `order`).
pub(super) fn codecs_v2(metadata: &Value, axes: usize, is_big: bool) -> Result<Codecs, String> {
    let order = match metadata.get("order").and_then(Value::as_str) {
        Some("C") => None,
        Some("F") => none_for_c_order((0..axes).rev().collect()),
        _ => return Err("order: expected \"C\" or \"F\"".into()),
    };
    let filters = metadata.get("filters").and_then(Value::as_array).into_iter().flatten();
    let compressor = metadata.get("compressor").filter(|compressor| !compressor.is_null());
    let packings = filters.chain(compressor).map(|codec| {
        let name = codec.get("id").and_then(Value::as_str).ok_or("a codec has no id")?;
        Packing::named(name, codec)
    });
    Ok(Codecs { order, is_big, packings: packings.collect::<Result<_, String>>()? })
}

/// Reads the codec list of a Zarr v3 array with chunks of `shape`.
pub(super) fn codecs_v3(list: Option<&Value>, shape: &[usize], dtype: DType) -> Result<ParsedCodecs, String> {
    let list = list.and_then(Value::as_array).ok_or("codecs: expected a list")?;
    let (mut order, mut is_big, mut packings, mut shards) = (None, None, Vec::new(), None);
    for codec in list {
        let name = codec.as_str().or_else(|| codec.get("name").and_then(Value::as_str)).ok_or("a codec has no name")?;
        let configuration = codec.get("configuration").unwrap_or(&Value::Null);
        let is_after_bytes = is_big.is_some() || shards.is_some();
        match name {
            "transpose" if !is_after_bytes && order.is_none() => order = Some(transposed(configuration, shape.len())?),
            "bytes" if !is_after_bytes => {
                is_big = Some(match configuration.get("endian").and_then(Value::as_str) {
                    Some("big") => true,
                    Some("little") => false,
                    None if dtype.bytes() == 1 => false,
                    _ => return Err("codec bytes: expected endian \"little\" or \"big\"".into()),
                });
            }
            "sharding_indexed" if !is_after_bytes && order.is_none() => {
                shards = Some(sharded(configuration, shape, dtype)?)
            }
            "transpose" | "bytes" | "sharding_indexed" => {
                return Err(format!("codec {name:?} is not supported at this position of the list"));
            }
            _ if is_big.is_some() => packings.push(Packing::named(name, configuration)?),
            _ if shards.is_some() => return Err(format!("codec {name:?} is not supported around shards")),
            _ => {
                // Fails for unknown codecs, whose error is more helpful.
                Packing::named(name, configuration)?;
                return Err(format!("codec {name:?} is not supported before \"bytes\""));
            }
        }
    }
    if let Some(shards) = shards {
        return Ok(shards);
    }
    let is_big = is_big.ok_or("codecs: expected one of \"bytes\" and \"sharding_indexed\" in the list")?;
    Ok(ParsedCodecs::Chunks(Codecs { order: order.and_then(none_for_c_order), is_big, packings }))
}

fn transposed(configuration: &Value, axes: usize) -> Result<Vec<usize>, String> {
    let order = match configuration.get("order") {
        Some(Value::String(name)) if name == "C" => Some((0..axes).collect()),
        Some(Value::String(name)) if name == "F" => Some((0..axes).rev().collect()),
        order => order.and_then(numbers),
    };
    let mut sorted = order.clone().unwrap_or_default();
    sorted.sort_unstable();
    match order {
        Some(order) if sorted.into_iter().eq(0..axes) => Ok(order),
        _ => Err(format!("codec transpose: expected an order of {axes} axes")),
    }
}

fn sharded(configuration: &Value, shape: &[usize], dtype: DType) -> Result<ParsedCodecs, String> {
    let refused = |reason: &str| format!("codec sharding_indexed: {reason}");
    let inner = configuration.get("chunk_shape").and_then(numbers).unwrap_or_default();
    let fits =
        inner.len() == shape.len() && inner.iter().zip(shape).all(|(&inner, &outer)| inner > 0 && outer % inner == 0);
    if !fits {
        return Err(refused(&format!("chunks of {inner:?} do not evenly divide shards of {shape:?}")));
    }
    let plain = |list, shape: &[usize], dtype| match codecs_v3(list, shape, dtype)? {
        ParsedCodecs::Chunks(codecs) => Ok(codecs),
        ParsedCodecs::Shards { .. } => Err(refused("shards inside shards are not supported")),
    };
    let codecs = plain(configuration.get("codecs"), &inner, dtype)?;
    let index = plain(configuration.get("index_codecs"), &[1, 2], DType::UInt64)?;
    if index.order.is_some() || index.packings.iter().any(|&packing| packing != Packing::Crc32c) {
        return Err(refused("expected index codecs \"bytes\" and \"crc32c\""));
    }
    let index_is_first = match configuration.get("index_location").map(Value::as_str) {
        None | Some(Some("end")) => false,
        Some(Some("start")) => true,
        _ => return Err(refused("expected the index at the \"start\" or the \"end\"")),
    };
    Ok(ParsedCodecs::Shards { inner, codecs, index, index_is_first })
}

/// Parses a JSON list of sizes.
pub(super) fn numbers(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|number| number.as_u64().and_then(|number| usize::try_from(number).ok())).collect()
}

/// Returns `None` for C order.
fn none_for_c_order(order: Vec<usize>) -> Option<Vec<usize>> {
    if order.is_sorted() { None } else { Some(order) }
}

impl Codecs {
    /// Returns the names of all codecs, in the order of encoding.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.packings.iter().map(|packing| packing.name()).collect();
        if names.is_empty() { "bytes".into() } else { names.join(", ") }
    }

    /// Decodes a chunk of `shape` to C order and native byte order. If bit n of `skipped` is set, codec n was not
    /// applied.
    ///
    /// # Errors
    /// The name of the codec that failed, and why.
    pub(super) fn decode(&self, stored: &[u8], shape: &[usize], dtype: DType, skipped: u32) -> Result<Vec<u8>, String> {
        let expected = shape.iter().product::<usize>() * dtype.bytes();
        let mut bytes = None;
        for (place, packing) in self.packings.iter().enumerate().rev() {
            if place < 32 && skipped >> place & 1 == 1 {
                continue;
            }
            // Except for the output of the first codec, intermediate data may be a little larger than the chunk.
            let most = if place == 0 { expected } else { expected.saturating_add(expected / 8 + (64 << 10)) };
            let packed = bytes.as_deref().unwrap_or(stored);
            let plain = packing.unpack(packed, most).map_err(|reason| format!("codec {}: {reason}", packing.name()))?;
            bytes = Some(plain);
        }
        let mut bytes = bytes.unwrap_or_else(|| stored.to_vec());
        if bytes.len() != expected {
            let codec = self.packings.first().map_or("bytes", |packing| packing.name());
            return Err(format!("codec {codec}: it holds {} bytes, but the chunk has {expected}", bytes.len()));
        }
        to_native(&mut bytes, dtype, self.is_big);
        Ok(match &self.order {
            Some(order) => untransposed(&bytes, order, shape, dtype.bytes()),
            None => bytes,
        })
    }
}

/// Converts elements of `size` bytes whose axes are stored in `order` to C order.
fn untransposed(bytes: &[u8], order: &[usize], shape: &[usize], size: usize) -> Vec<u8> {
    // The stride of each axis of the chunk in `bytes`.
    let mut strides = vec![0; shape.len()];
    let mut stride = size;
    for &axis in order.iter().rev() {
        strides[axis] = stride;
        stride *= shape[axis];
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut place = vec![0; shape.len()];
    let mut at = 0;
    while plain.len() < bytes.len() {
        plain.extend_from_slice(&bytes[at..at + size]);
        for axis in (0..shape.len()).rev() {
            place[axis] += 1;
            at += strides[axis];
            if place[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            place[axis] = 0;
        }
    }
    plain
}
