import {
  to = rabbitmq_retry_chain.orders
  identity = {
    vhost = "/"
    name  = "orders"
  }
}
