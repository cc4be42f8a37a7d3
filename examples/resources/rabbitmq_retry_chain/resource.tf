# Queue "orders" retries after 5 seconds, 30 seconds and 5 minutes. A message
# that fails a fourth time is parked in queue "orders.parking".
resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s", "30s", "5m"]
}
