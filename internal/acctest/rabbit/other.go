//go:build !linux

package rabbit

import (
	"context"
	"errors"
	"io"
)

// node exists only on Linux.
type node struct{}

var errNotLinux = errors.New("only on Linux")

func (*node) pids() []int                                    { return nil }
func (*node) running() bool                                  { return false }
func (*node) restart(context.Context) error                  { return errNotLinux }
func (*node) kill() error                                    { return errNotLinux }
func (*node) stop(context.Context) error                     { return errNotLinux }
func (*node) ctl(context.Context, ...string) (string, error) { return "", errNotLinux }
func (*node) logTail() string                                { return "" }

func installedOrigin(context.Context, string, io.Writer) (origin, error) { return nil, errNotLinux }
func packageOrigin(context.Context, string, io.Writer) (origin, error)   { return nil, errNotLinux }
func treeOrigin(context.Context, string, io.Writer) (origin, error)      { return nil, errNotLinux }

// WithAPT has no apt to use.
func WithAPT(context.Context, func() error) error { return errNotLinux }
