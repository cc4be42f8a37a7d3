import {
  to = rabbitmq_retry_attachment.orders
  id = "standard/orders@/"
}
