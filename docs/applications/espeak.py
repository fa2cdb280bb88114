"""Speech from eSpeak NG, whose wheel the zoo's shelf fetches: labels are free."""

import ctypes
import sys
from functools import cache

import numpy as np
from scipy.signal import resample_poly

from bench.zoo import shelf
from bench.zoo.listing import Package

#: The wheel for Linux on x86-64.
PACKAGE = Package("espeakng-loader", "0.2.4", "GPL-3.0-or-later")
SHA256 = "08721baf27d13d461f6be6eed9a65277e70d68234ff484fd8b9897b222cdcb6d"
#: Numbers of eSpeak's C interface: output into memory, parameters, and text in UTF-8.
RETRIEVAL, SPEED, PITCH, UTF8 = 1, 1, 3, 1


@cache
def library():
    """Load eSpeak; return its library and the list that receives sound."""
    if sys.platform != "linux":
        raise SystemExit("speech needs Linux on x86-64")
    place = shelf.unpacked(PACKAGE, SHA256) / "espeakng_loader"
    speak, heard = ctypes.CDLL(str(place / "libespeak-ng.so")), []
    rate = speak.espeak_Initialize(RETRIEVAL, 0, str(place).encode(), 0)
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
    )

    def receive(sound, count, _):
        heard.extend(sound[:count] if sound else [])
        return 0

    callback = kind(receive)
    speak.espeak_SetSynthCallback(callback)
    # eSpeak holds only the address, so something here must keep the function.
    return speak, heard, rate, callback


def say(text, voice="en-us", speed=160, pitch=50):
    """Return speech with 16,000 samples a second, from -32,768 to 32,767."""
    speak, heard, rate, _ = library()
    heard.clear()
    speak.espeak_SetVoiceByName(voice.encode())
    speak.espeak_SetParameter(SPEED, speed, 0)
    speak.espeak_SetParameter(PITCH, pitch, 0)
    data = text.encode() + b"\0"
    speak.espeak_Synth(data, len(data), 0, 1, 0, UTF8, None, None)
    speak.espeak_Synchronize()
    return resample_poly(np.array(heard, np.float64), 16_000, rate).astype(np.float32)
