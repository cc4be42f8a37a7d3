resource "rabbitmq_delay_network" "delays" {
  name = "delays"
}

resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s", "30s"]
}

# Messages whose routing key ends with "eu.orders" come to the queue "orders"
# when their delay is over.
resource "rabbitmq_delay_destination" "orders" {
  network = rabbitmq_delay_network.delays.name
  name    = "eu.orders"
  queue   = rabbitmq_retry_chain.orders.work_queue.name

  lifecycle {
    create_before_destroy = true
  }
}
