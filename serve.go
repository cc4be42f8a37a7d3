package main

import (
	"context"
	"iter"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/parent"
)

const address = "registry.terraform.io/retrychain/rabbitmq"

// serve serves the provider until the CLI ends it. If the CLI is gone without a word, as
// after kill -9, whatever runs is canceled as by an interrupt, and the process ends. A
// provider that is served for a debugger belongs to whoever started it.
func serve(provider tfprotov6.ProviderServer, debugger bool) error {
	if debugger {
		return tf6server.Serve(address, func() tfprotov6.ProviderServer { return provider }, tf6server.WithManagedDebug())
	}
	// Without the CLI nobody reads the log, and to write it would end the process at any
	// moment.
	signal.Ignore(syscall.SIGPIPE)
	s := newServer(provider)
	parent.Watch(func() {
		s.end(endTime)
		log.Print("the CLI has ended, and the provider ends as well")
		os.Exit(1) //nolint:forbidigo // this is the main package
	})
	return tf6server.Serve(address, func() tfprotov6.ProviderServer { return s })
}

// endTime is how long changes may take to end after they were canceled: messages of a
// queue that is being deleted are put back, and what was half created is deleted again.
const endTime = 3 * time.Minute

// server counts the changes that run.
type server struct {
	tfprotov6.ProviderServer
	tfprotov6.ActionServer
	tfprotov6.ListResourceServer

	changes sync.WaitGroup
	cancel  context.CancelFunc
	ended   context.Context
}

func newServer(provider tfprotov6.ProviderServer) *server {
	s := &server{ProviderServer: provider}
	s.ActionServer, _ = provider.(tfprotov6.ActionServer)
	s.ListResourceServer, _ = provider.(tfprotov6.ListResourceServer)
	s.ended, s.cancel = context.WithCancel(context.Background())
	return s
}

// end cancels the changes and waits until they have ended, at most so long.
func (s *server) end(limit time.Duration) {
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.changes.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// change counts a change until done is called, and cancels its context with the server.
func (s *server) change(ctx context.Context) (_ context.Context, done func()) {
	s.changes.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ended, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.changes.Done()
	}
}

func (s *server) ApplyResourceChange(
	ctx context.Context, request *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	ctx, done := s.change(ctx)
	defer done()
	return s.ProviderServer.ApplyResourceChange(ctx, request)
}

// InvokeAction counts the action until its last event was read: it runs meanwhile.
func (s *server) InvokeAction(ctx context.Context, request *tfprotov6.InvokeActionRequest) (*tfprotov6.InvokeActionServerStream, error) {
	ctx, done := s.change(ctx)
	stream, err := s.ActionServer.InvokeAction(ctx, request)
	if err != nil || stream == nil || stream.Events == nil {
		done()
		return stream, err
	}
	stream.Events = untilRead(stream.Events, done)
	return stream, nil
}

func untilRead[T any](events iter.Seq[T], done func()) iter.Seq[T] {
	return func(yield func(T) bool) {
		defer done()
		events(yield)
	}
}
