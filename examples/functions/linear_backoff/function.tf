# Five retries: after 10 seconds, then 20 seconds later each time, at most a
# minute.
resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = provider::rabbitmq::linear_backoff("10s", "20s", "1m", 5)
}

# ["10s", "30s", "50s", "1m", "1m"]
output "delays" {
  value = rabbitmq_retry_chain.orders.delays
}
