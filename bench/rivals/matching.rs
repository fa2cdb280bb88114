// `match` on a pair of element types, as in Cobalt: one call per step of `run`.
use std::hint::black_box;

#[derive(Clone, Copy)]
#[repr(u8)]
enum DType { F32, F64, F16, I64, I32, I16, U8, U16, Bool, I8 }

struct Tensor { dtype: DType, value: u64 }

const ALL: [DType; 10] = [
    DType::F32, DType::F64, DType::F16, DType::I64, DType::I32,
    DType::I16, DType::U8, DType::U16, DType::Bool, DType::I8,
];

#[inline(never)]
fn kernel<const STEP: u64>(a: &Tensor, _b: &Tensor) -> u64 { a.value + STEP }

#[inline(never)]
fn poke(a: &Tensor, b: &Tensor) -> Result<u64, ()> {
    match (a.dtype, b.dtype) {
        (DType::F32, DType::F32) => Ok(kernel::<1>(a, b)),
        (DType::F64, DType::F64) => Ok(kernel::<2>(a, b)),
        (DType::F16, DType::F16) => Ok(kernel::<3>(a, b)),
        (DType::I64, DType::I64) => Ok(kernel::<4>(a, b)),
        (DType::I32, DType::I32) => Ok(kernel::<5>(a, b)),
        (DType::I16, DType::I16) => Ok(kernel::<6>(a, b)),
        (DType::U8, DType::U8) => Ok(kernel::<7>(a, b)),
        (DType::U16, DType::U16) => Ok(kernel::<8>(a, b)),
        (DType::Bool, DType::Bool) => Ok(kernel::<9>(a, b)),
        (DType::I8, DType::I8) => Ok(kernel::<10>(a, b)),
        _ => Err(()),
    }
}

/// The value after `count` calls, which start from zero; zero if there is no kernel.
#[no_mangle]
pub extern "C" fn run(count: u64, first: u8, second: u8) -> u64 {
    let mut a = Tensor { dtype: ALL[first as usize], value: 0 };
    let b = Tensor { dtype: ALL[second as usize], value: 0 };
    for _ in 0..count {
        match poke(black_box(&a), black_box(&b)) {
            Ok(value) => a.value = value,
            Err(()) => return 0,
        }
    }
    a.value
}
