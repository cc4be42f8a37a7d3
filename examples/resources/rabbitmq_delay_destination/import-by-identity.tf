import {
  to = rabbitmq_delay_destination.orders
  identity = {
    vhost   = "/"
    network = "delays"
    name    = "eu.orders"
    queue   = "orders"
  }
}
