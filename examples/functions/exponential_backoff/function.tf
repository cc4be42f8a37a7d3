# Five retries: after 5 seconds, then after three times as long each time.
resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = provider::rabbitmq::exponential_backoff("5s", 3, "10m", 5)
}

# ["5s", "15s", "45s", "2m15s", "6m45s"]
output "delays" {
  value = rabbitmq_retry_chain.orders.delays
}
