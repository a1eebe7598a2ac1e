//! Python's generator, compared with values from CPython 3.11's `random`.

use sluicegate::internal::PythonGenerator;
#[cfg(feature = "image")]
use sluicegate::{ImageTransform, TorchGenerator, internal::ImageShape, internal::Operation};

/// Returns the generator of `random.setstate((3, (*words, 0), None))`, where word `i` is `(i + 1) * 2654435761`.
fn generator() -> PythonGenerator {
    let mut number = 0_u32;
    PythonGenerator::from_parts(
        std::array::from_fn(|_| {
            number += 1;
            number.wrapping_mul(2_654_435_761)
        }),
        0,
    )
}

/// Draws in turn, so that one draw too many or too few shows in all later values.
#[test]
fn every_draw_is_pythons() {
    let mut python = generator();
    assert_eq!([(); 3].map(|()| python.random()), [0.7604757522934749, 0.41197809639503724, 0.48858410291588483]);
    assert_eq!([(); 8].map(|()| python.choice(7)), [5, 2, 1, 1, 3, 4, 3, 1]);
    assert_eq!([(); 8].map(|()| python.weighted_choice(&[1.0, 1.5, 1.5, 4.5])), [3, 3, 0, 1, 3, 3, 3, 3]);
    // The weights 3, -2, 1, 1.
    assert_eq!([(); 8].map(|()| python.weighted_choice(&[3.0, 1.0, 2.0, 3.0])), [0, 0, 3, 2, 0, 3, 3, 2]);
    let orders = [1, 2, 5, 8].map(|len| python.shuffled(len));
    assert_eq!(orders.concat(), [0, 1, 0, 2, 4, 0, 3, 1, 4, 7, 5, 6, 1, 0, 2, 3]);
    assert_eq!((python.parts().1, python.random()), (79, 0.8578545715322446));
    (0..400).for_each(|_| assert!(python.random() < 1.0));
    assert_eq!(python.shuffled(17), [10, 11, 13, 6, 14, 2, 9, 12, 1, 0, 5, 15, 16, 8, 4, 7, 3]);
    assert_eq!(python.random(), 0.4426512400546889);
}

#[cfg(feature = "image")]
#[test]
fn a_position_has_both_generators() {
    let mut both = TorchGenerator::new(0).with_python(generator());
    let start = both.place(None);
    let expected = (both.random_u32(), both.python().unwrap().random());
    let next = both.place(Some(&start));
    let mut again = TorchGenerator::at(&start);
    assert_eq!((again.random_u32(), again.python().unwrap().random()), expected);
    assert_eq!(again.place(None), next);
    again.python().unwrap().random();
    assert_ne!(again.place(None), next);
}

#[cfg(feature = "image")]
#[test]
fn transforms_without_the_generator_that_they_draw_from_are_refused() {
    let pads = [1, 2, 3].map(|left| ImageTransform::Pad {
        padding: [left, 0, 0, 0],
        fill: vec![0.0],
        padding_mode: sluicegate::PaddingMode::Constant,
    });
    let transforms = pads.to_vec();
    let order = ImageTransform::RandomOrderByPython { transforms: transforms.clone() };
    let choice = |cumulative| ImageTransform::RandomChoiceByPython { transforms: transforms.clone(), cumulative };
    let drawn = |transform: &ImageTransform, mut generator: TorchGenerator| {
        let mut shape = ImageShape { height: 2, width: 2, channels: 3, dtype: sluicegate::DType::UInt8 };
        let mut operations = Vec::new();
        transform.draw(&mut shape, &mut generator, &mut operations)?;
        let left = |each: &Operation| match each {
            Operation::Pad { left, .. } => *left,
            other => panic!("{other:?}"),
        };
        Ok::<_, String>(operations.iter().map(left).collect::<Vec<_>>())
    };
    let with_python = || TorchGenerator::new(0).with_python(generator());
    assert_eq!(drawn(&choice(None), with_python()).unwrap(), [3]);
    assert_eq!(drawn(&choice(Some(vec![0.0, 1.0, 1.0])), with_python()).unwrap(), [2]);
    assert_eq!(drawn(&order, with_python()).unwrap().len(), 3);
    for transform in [&order, &choice(None)] {
        assert!(drawn(transform, TorchGenerator::new(0)).unwrap_err().contains("Python's generator"));
        let nested = ImageTransform::RandomApply { transforms: vec![transform.clone()], p: 1.0 };
        assert_eq!(nested.output(3, sluicegate::DType::UInt8), Ok((3, sluicegate::DType::UInt8)));
        assert!(nested.is_random());
    }
    assert!(drawn(&choice(Some(vec![1.0; 9])), with_python()).is_ok());
    let nothing = ImageTransform::RandomChoiceByPython { transforms: Vec::new(), cumulative: None };
    assert!(drawn(&nothing, with_python()).unwrap_err().contains("a weight for each"));
}
