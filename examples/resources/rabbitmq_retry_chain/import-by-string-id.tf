import {
  to = rabbitmq_retry_chain.orders
  id = "orders@/"
}
