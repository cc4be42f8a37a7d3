package broker

import rabbithole "github.com/michaelklishin/rabbit-hole/v2"

// request is one of rabbit-hole's calls that read. What it returns is left aside: its types
// lose what an argument was and know fewer fields, so that [get] reads the answer itself.
type request func(rh *rabbithole.Client) (any, error)

// get asks the broker and returns its answer as a T. Its errors are explained, see
// [Client.explain].
func get[T any](k *call, ask request) (T, error) {
	return decoded[T](k, k.do(ask.send))
}

// fetch is get without an explanation of errors, for the requests that find one.
func fetch[T any](k *call, ask request) (T, error) {
	return decoded[T](k, k.run(ask.send))
}

func decoded[T any](k *call, err error) (found T, _ error) {
	if err != nil {
		return found, err
	}
	err = k.decode(&found)
	return found, err
}

func (r request) send(rh *rabbithole.Client) error {
	_, err := r(rh)
	return err
}
