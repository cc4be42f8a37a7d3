// Package cutting holds a test that cuts every write of every resource 0 to 8 ms after it
// was sent, and looks at what RabbitMQ and the next run make of it.
package cutting
