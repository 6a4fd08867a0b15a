// Compiled into every extension: the version of Heddle whose headers it includes. The program opens only its own.
extern "C" const char heddle_extension_version[];
const char heddle_extension_version[] = HEDDLE_EXTENSION_VERSION;
