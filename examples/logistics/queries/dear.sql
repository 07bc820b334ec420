SELECT order_id, total, name FROM PricedOrders JOIN CurrentCustomers USING (customer_id)
WHERE city = 'Malmö' AND total >= 500 ORDER BY total DESC
