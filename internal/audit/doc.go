// Package audit finds the ways in which a virtual host loses messages, holds
// them up or sends them round indefinitely. It looks at exchanges, queues, bindings,
// policies and shovels only: what is done with single messages is followed by package
// simulator, as the tests of retry chains do.
//
// The package is pure: it knows neither Terraform nor HTTP. Every rule names the
// part of RabbitMQ that its fact comes from. The tests of the data source
// rabbitmq_retry_audit show on brokers what they say, and name the exceptions.
package audit
