package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// probeTime is how long a queue may take to answer. One that is half made
// refuses at once or never answers.
const probeTime = 5 * time.Second

// RemoveHalfMade deletes those of the queues whose declaration or deletion
// RabbitMQ broke off, and returns their names. They hold nothing. A queue that does
// not answer and may hold something is an [UnknownError].
//
// When the connection of a request ends early, because the client was killed or a
// proxy gave up, RabbitMQ ends the request wherever it is (3.10.8, 4.0.5 and
// 4.3.6). A quorum queue can then be in the metadata without a Raft server. It is
// listed as running, and a second declaration succeeds. But whatever is published
// to it is refused or never confirmed, and dead letters that are routed to it
// vanish. Or it has a Raft server that nobody told to elect itself. What makes it
// suspect: basic.get fails or has no answer, and its counts never came or are the
// zeros of before. A queue that is recovering its log, whose disk stalls or whose
// server crashed looks the same, and so more is asked for, see [Client.neverHeld].
//
// A queue of a node that has just started may still be recovering, and so 20 s
// must pass without an answer, and 2 minutes since the start of every node.
// It costs one request, and for each queue one more and a look over AMQP, which a
// queue with messages or consumers does not notice.
func (c *Client) RemoveHalfMade(ctx context.Context, vhost string, queues []topology.Queue) ([]string, error) {
	patience := sync.OnceValue(func() time.Duration { return c.proof.patience + c.unsettled(ctx) })
	removed, err := quorumQueues(queues, func(q topology.Queue) (bool, error) {
		half, err := c.halfMade(ctx, vhost, q.Name, patience())
		if half {
			_, err = c.deleteQueue(ctx, vhost, q.Name)
		}
		return half, err
	})
	return queueNames(removed), err
}

// RemoveUnfinished deletes those of the quorum queues that are proved empty, unused
// and not bound, and returns their names: their declaration may have been broken off
// when RabbitMQ had given them a Raft server but not yet their whole
// configuration (rabbit_quorum_queue:start_cluster/1). Such a queue of 3.10.8
// takes messages and never expires them, and nothing tells it from a whole one.
// Declare them again, so that they are whole for certain. From 4.1.0 on a queue
// starts with its configuration, and only those that are half made are deleted.
//
// Call it only for queues that nothing leads to yet. Queues that are half made go
// as well, see [Client.RemoveHalfMade]. A queue that was whole all the time, and
// whose bindings somebody deleted, can have dead letters on their way out: hence the
// proof, which takes as long as [Client.ProveEmpty] says and fails as that does. The
// user needs the permissions of [Client.DeleteQueue].
func (c *Client) RemoveUnfinished(ctx context.Context, vhost string, queues []topology.Queue) ([]string, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Version.Has(abilities.StartsConfigured) {
		return c.RemoveHalfMade(ctx, vhost, queues)
	}
	unbound, err := quorumQueues(queues, func(q topology.Queue) (bool, error) {
		was, exists, err := c.remember(ctx, vhost, q.Name)
		return exists && len(was.bindings) == 0, err
	})
	if err != nil {
		return nil, err
	}
	empty, _, err := c.Emptiness(ctx, vhost, unbound)
	if err != nil {
		return nil, err
	}
	removed, err := quorumQueues(unbound, func(q topology.Queue) (bool, error) {
		if !slices.Contains(empty, q.Name) {
			return false, nil // it works
		}
		err := c.DeleteQueue(ctx, vhost, q, OnlyIfEmpty)
		var used *InUseError
		if errors.As(err, &used) {
			return false, nil
		}
		return err == nil, err
	})
	return queueNames(removed), err
}

// quorumQueues returns those of the quorum queues that are as is says, which is asked
// for all at once.
func quorumQueues(queues []topology.Queue, is func(topology.Queue) (bool, error)) ([]topology.Queue, error) {
	found := make([]bool, len(queues))
	errs := make([]error, len(queues))
	var group sync.WaitGroup
	for i, q := range queues {
		if q.Type == topology.Quorum {
			group.Go(func() { found[i], errs[i] = is(q) })
		}
	}
	group.Wait()
	var list []topology.Queue
	for i, q := range queues {
		if found[i] && errs[i] == nil {
			list = append(list, q)
		}
	}
	return list, errors.Join(errs...)
}

func queueNames(queues []topology.Queue) []string {
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names
}

// LooksHalfMade says whether a queue has no messages and does not answer, see
// [Client.RemoveHalfMade]. It asks once: a queue that is just starting looks the
// same.
func (c *Client) LooksHalfMade(ctx context.Context, vhost, queue string) (bool, error) {
	half, err := c.halfMade(ctx, vhost, queue, 0)
	var unknown *UnknownError
	if errors.As(err, &unknown) {
		return false, nil
	}
	return half, err
}

// halfMade says whether a quorum queue is half made and holds nothing. It says
// so only after the given time without an answer. A queue that does not answer and may
// hold something is an [UnknownError].
func (c *Client) halfMade(ctx context.Context, vhost, queue string, patience time.Duration) (bool, error) {
	for began := time.Now(); ; {
		found, err := c.suspect(ctx, vhost, queue)
		if err != nil || found == nil {
			return false, err
		}
		answers, err := c.answers(ctx, vhost, queue)
		switch {
		case err != nil && found.Messages != nil && ctx.Err() == nil:
			return false, nil // it worked once, and nobody says that it does not now
		case err != nil || answers:
			return false, err
		case time.Since(began) >= patience:
			return c.neverHeld(ctx, vhost, queue, found)
		}
		if err := c.sleep(ctx, c.proof.poll); err != nil {
			return false, fmt.Errorf("stopped while waiting for queue %q to answer: %w", queue, err)
		}
	}
}

// neverHeld says whether a quorum queue that does not answer is certain to hold
// nothing. If it is not, the result is an [UnknownError].
//
// From 4.0 on every member of the queue must say that its log is empty, or that the
// node has started no Raft server for it since its own start. Ra's metrics tell that
// without asking the server, so that one that is busy or has crashed shows the length of
// its log (ra:key_metrics/2). A node that starts gives a server to a queue that has
// none (rabbit_quorum_queue:recover/2).
//
// RabbitMQ 3.10 only says whether a member has a server, and whether that is recovering.
// A queue that was counted before and was empty is taken for half made if no member has a
// server. One that was never counted, although its node has been up for a while, is if
// nothing is bound to it: an apply binds a queue after its declaration has been answered,
// and a server that was ever elected has reported counts. It would look the same if
// all bindings and the statistics of a queue whose server hangs were deleted.
func (c *Client) neverHeld(ctx context.Context, vhost, queue string, found *shape) (bool, error) {
	members, told, err := c.raftMembers(ctx, vhost, queue, found)
	if err != nil {
		return false, err
	}
	never := told && len(members) >= len(found.Members) && !slices.ContainsFunc(members, raftMember.mayHold)
	switch {
	case told:
	case found.Messages != nil:
		never = len(found.Online) == 0
	default:
		bound, err := c.Bound(ctx, vhost, queue)
		if err != nil {
			return false, err
		}
		never = !bound
	}
	if never {
		return true, nil
	}
	listed, err := c.listed(ctx, vhost, queue)
	if err != nil || listed == nil {
		return false, err
	}
	return false, c.unknown(ctx, vhost, queue, listed, "it does not answer; it may be recovering, its disk may be slow, or its Raft "+
		"server may have ended, which starts again with its node")
}

// raftMember is what a member of a quorum queue says of its Raft server.
type raftMember struct {
	State string `json:"Raft State"`
	// Last is the index of the log's last entry and Snapshot that of the last
	// snapshot. They are numbers, or "" of a server that the node never started.
	Last     json.RawMessage `json:"Last Log Index"`
	Snapshot json.RawMessage `json:"Snapshot Index"`
}

// mayHold says whether the member may have messages.
func (m raftMember) mayHold() bool {
	switch m.State {
	case "noproc":
		return string(m.Last) != `""`
	case "follower", "candidate", "pre_vote":
		return string(m.Last) != "0" || string(m.Snapshot) != "-1"
	}
	return true
}

// raftMembers returns what the members of a quorum queue say. told is false if the
// broker does not say: before 4.0.
//
// RabbitMQ 4.0 answers 500 if a node has started no server for the queue
// (rabbit_quorum_queue:status/2 knows no such case). With one member that says all.
func (c *Client) raftMembers(ctx context.Context, vhost, queue string, found *shape) (members []raftMember, told bool, err error) {
	info, err := c.Info(ctx)
	if err != nil || !info.Version.Has(abilities.RaftStatus) {
		return nil, false, err
	}
	k := c.newCall(ctx, operation{
		text:   fmt.Sprintf("look at the Raft members of queue %q in vhost %q", queue, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", queue),
	})
	k.path = fmt.Sprintf("queues/quorum/%s/%s/status", url.PathEscape(vhost), url.PathEscape(queue))
	k.once = true
	members, err = get[[]raftMember](k, func(rh *rabbithole.Client) (any, error) { return rh.GetQueue(vhost, queue) })
	var answer *APIError
	switch {
	case isNotFound(err):
		return nil, true, nil
	case errors.As(err, &answer) && answer.Status == http.StatusInternalServerError && len(k.answer) == 0:
		if len(found.Members) == 1 {
			members = []raftMember{{State: "noproc", Last: json.RawMessage(`""`)}}
		}
		return members, true, nil
	case err != nil:
		return nil, false, err
	}
	return members, true, nil
}

// shape is what the API says of a queue.
type shape struct {
	Type     string   `json:"type"`
	Messages *int64   `json:"messages"`
	State    string   `json:"state"`
	Members  []string `json:"members"`
	Online   []string `json:"online"`
}

// suspect returns the shape of a queue that can be half made, nil for any other:
// one that holds messages, or is down or short of members.
func (c *Client) suspect(ctx context.Context, vhost, queue string) (*shape, error) {
	k := c.newCall(ctx, operation{
		text:   fmt.Sprintf("look at queue %q in vhost %q", queue, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", queue),
	})
	k.query = url.Values{"columns": {"name,type,messages,state,members,online"}}
	found, err := get[shape](k, func(rh *rabbithole.Client) (any, error) { return rh.GetQueue(vhost, queue) })
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// 3.10 lists no member of a half-made queue as online.
	whole := len(found.Online) == len(found.Members) || len(found.Members) == 1
	running := found.State == "" || found.State == "running"
	empty := found.Messages == nil || *found.Messages == 0
	if found.Type != string(topology.Quorum) || !whole || !running || !empty {
		return nil, nil
	}
	return &found, nil
}

// unsettled is how much of the time remains that every node gets after its start
// to recover its queues: all of it when the user may not see the nodes (tag
// monitoring) or the broker does not say.
func (c *Client) unsettled(ctx context.Context) time.Duration {
	k := c.newCall(ctx, operation{text: "list the nodes"})
	k.query = url.Values{"columns": {"name,running,uptime"}}
	nodes, err := get[[]struct {
		Running bool   `json:"running"`
		Uptime  *int64 `json:"uptime"` // milliseconds
	}](k, func(rh *rabbithole.Client) (any, error) { return rh.ListNodes() })
	if err != nil || len(nodes) == 0 {
		return c.proof.settle
	}
	var left time.Duration
	for _, n := range nodes {
		switch {
		case !n.Running:
		case n.Uptime == nil:
			return c.proof.settle
		default:
			left = max(left, c.proof.settle-time.Duration(*n.Uptime)*time.Millisecond)
		}
	}
	return left
}

// answers says whether the queue answers: that it holds messages or has
// consumers, or to a request for a message.
func (c *Client) answers(ctx context.Context, vhost, queue string) (bool, error) {
	s, err := c.openSession(ctx, vhost)
	if err != nil {
		return false, err
	}
	defer s.Close() //nolint:errcheck // what was not settled goes back to the queue
	probing, stop := messages.Patience(ctx, queue, probeTime)
	defer stop()
	depth, err := s.Glance(probing, queue)
	if err == nil && depth == (messages.Depth{}) {
		err = s.Probe(probing, queue)
	}
	var refused *messages.RefusedError
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.As(err, &refused):
		return false, c.cannotWatch(vhost, queue, fmt.Sprintf("read on %q", queue), err)
	}
	return !isMute(err), nil
}

// isMute says whether the error of a request to a queue can mean that it has no
// Raft server: no answer came in time, or INTERNAL_ERROR (541). Any other answer,
// such as that of a queue whose only consumer is another, is one of a queue that
// lives.
func isMute(err error) bool {
	var told *messages.BrokerError
	if errors.As(err, &told) {
		return told.Internal()
	}
	var unavailable *messages.UnavailableError
	return errors.As(err, &unavailable) && unavailable.Silent
}
