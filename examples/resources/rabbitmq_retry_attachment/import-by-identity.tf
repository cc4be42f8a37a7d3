import {
  to = rabbitmq_retry_attachment.orders
  identity = {
    vhost = "/"
    tiers = "standard"
    queue = "orders"
  }
}
