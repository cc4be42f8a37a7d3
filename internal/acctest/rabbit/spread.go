package rabbit

import (
	"hash/fnv"
	"os"
)

// EnvFull names the variable that asks for every test on every broker. Without it a
// test runs on one of them, see [Spread].
const EnvFull = "RETRYCHAIN_TEST_FULL"

// EnvCluster names the variable that asks for the tests on clusters.
const EnvCluster = "RETRYCHAIN_TEST_CLUSTER"

// Full says whether every test runs on every broker.
func Full() bool { return os.Getenv(EnvFull) != "" }

// Spread returns the brokers, or versions, that a test of this name runs on: one of
// them, or with [EnvFull] all.
func Spread[T any](name string, all []T) []T {
	if Full() || len(all) < 2 {
		return all
	}
	i := int(hash(name) % uint32(len(all)))
	return all[i : i+1]
}

// Sampled says whether a test runs the case of this number: every fourth, or with
// [EnvFull] all. Which of four depends on the name of the test.
func Sampled(name string, number int) bool {
	return Full() || (uint32(number)+hash(name))%4 == 0
}

// Half returns every other element, or with [EnvFull] all. Which half depends on the
// name of the test. It is for combinations of settings: halves of a list in which
// neighbours differ in every setting meet each value of each.
func Half[T any](name string, all []T) []T {
	if Full() {
		return all
	}
	var half []T
	for i := int(hash(name) % 2); i < len(all); i += 2 {
		half = append(half, all[i])
	}
	return half
}

// Size returns how many objects or messages a test takes: few, or with [EnvFull] many.
func Size(many, few int) int {
	if Full() {
		return many
	}
	return few
}

func hash(name string) uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return sum.Sum32()
}
